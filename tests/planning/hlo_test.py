"""Tests for agentrl/planning/hlo.py, on programs whose work is known."""

import jax
import jax.numpy as jnp
import pytest

from agentrl.planning import hlo
from agentrl.planning.hlo import Collective


def compiled(fn, *shapes):
  args = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
  options = {'xla_backend_optimization_level': 0}
  return jax.jit(fn).lower(*args).compile(compiler_options=options).as_text()


def test_a_product_counts_two_for_each_multiply_and_add():
  text = compiled(lambda x, y: x @ y, (3, 5), (5, 7))
  assert hlo.work(text) == hlo.Costs(2 * 3 * 5 * 7, ())


def test_a_batched_product_counts_each_of_its_rows():
  attend = lambda x, y: jnp.einsum('bkqd,bksd->bkqs', x, y)
  text = compiled(attend, (2, 3, 8, 16), (2, 3, 32, 16))
  assert hlo.work(text).flops == 2 * (2 * 3 * 8 * 32) * 16


@pytest.mark.parametrize('layers', (1, 3, 80))
def test_a_scan_counts_every_turn(layers):
  def run(x, kernels):
    body = lambda x, kernel: (jnp.tanh(x @ kernel), None)
    return jax.lax.scan(body, x, kernels)[0]

  text = compiled(run, (4, 16), (layers, 16, 16))
  assert hlo.work(text).flops == layers * 2 * 4 * 16 * 16


def test_loops_in_loops_multiply_and_the_backward_pass_costs_two_more():
  def run(x, kernels):
    def inner(x, kernel):
      return jnp.tanh(x @ kernel), None

    def outer(x, kernels):
      return jax.lax.scan(inner, x, kernels)[0], None

    return jnp.sum(jax.lax.scan(outer, x, kernels)[0])

  shapes = (4, 16), (5, 3, 16, 16)
  once = 5 * 3 * 2 * 4 * 16 * 16
  assert hlo.work(compiled(run, *shapes)).flops == once
  grad = jax.grad(run, argnums=(0, 1))
  assert hlo.work(compiled(grad, *shapes)).flops == 3 * once


def test_a_loop_that_may_turn_any_number_of_times_is_refused():
  def run(x):
    small = lambda x: jnp.max(x) < 100
    return jax.lax.while_loop(small, lambda x: x @ x, x)

  with pytest.raises(ValueError, match='unknown number of times'):
    hlo.work(compiled(run, (4, 4)))


PROGRAM = """\
HloModule jit_f, is_scheduled=true, num_partitions=8

%body (p: (s32[], f32[4,8])) -> (s32[], f32[4,8]) {{
  %p = (s32[], f32[4,8]{{1,0}}) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %x = f32[4,8]{{1,0}} get-tuple-element(%p), index=1
  %y = {instruction}
  ROOT %out = (s32[], f32[4,8]{{1,0}}) tuple(%i, %x)
}}

%cond (p.1: (s32[], f32[4,8])) -> pred[] {{
  %p.1 = (s32[], f32[4,8]{{1,0}}) parameter(0)
  ROOT %less = pred[] constant(true)
}}

ENTRY %main (a: (s32[], f32[4,8])) -> (s32[], f32[4,8]) {{
  %a = (s32[], f32[4,8]{{1,0}}) parameter(0)
  ROOT %loop = (s32[], f32[4,8]{{1,0}}) while(%a), condition=%cond, body=%body, backend_config={{"known_trip_count":{{"n":"6"}}}}
}}
"""


@pytest.mark.parametrize(
    'instruction, expected',
    [
        # The larger of what goes in and what comes out counts.
        (
            (
                'f32[16,8]{1,0} all-gather(%x), replica_groups={{0,1,2,3},'
                '{4,5,6,7}}, dimensions={0}'
            ),
            Collective('all-gather', 4, 6, 6 * 4 * 16 * 8),
        ),
        (
            (
                'f32[1,8]{1,0} reduce-scatter(%x), replica_groups=[2,4]<=[8],'
                ' dimensions={0}, to_apply=%add'
            ),
            Collective('reduce-scatter', 4, 6, 6 * 4 * 4 * 8),
        ),
        (
            (
                '(bf16[4,8]{1,0}, bf16[4,8]{1,0}) all-reduce(%h, %h),'
                " replica_groups=mesh['a'=4,'b'=2] {'b'}"
            ),
            Collective('all-reduce', 2, 6, 6 * 2 * 2 * 4 * 8),
        ),
        (
            (
                'pred[4,8]{1,0} all-to-all(%m),'
                " replica_groups=mesh['a'=4,'b'=2] {'a':(1)2,'b'}"
            ),
            Collective('all-to-all', 4, 6, 6 * 4 * 8),
        ),
        (
            'f32[4,8]{1,0} all-reduce-start(%x), replica_groups={}',
            Collective('all-reduce', 8, 6, 6 * 4 * 4 * 8),
        ),
        (
            (
                'f32[4,8]{1,0} collective-permute(%x),'
                ' source_target_pairs={{0,1},{1,0}}'
            ),
            Collective('collective-permute', 2, 6, 6 * 4 * 4 * 8),
        ),
    ],
)
def test_collectives_in_a_loop(instruction, expected):
  more = '%h = bf16[4,8]{1,0} convert(%x)\n  %m = pred[4,8]{1,0} convert(%x)'
  text = PROGRAM.format(instruction='f32[] constant(0)\n  INSERT')
  text = text.replace('INSERT', f'{more}\n  %z = {instruction}')
  assert hlo.work(text.replace(', to_apply=%add', '')) == hlo.Costs(
      0, (expected,)
  )
