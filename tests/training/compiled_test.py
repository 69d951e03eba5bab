"""Tests for agentrl.training.compiled: programs compiled beside the work."""

import dataclasses
import inspect
import threading

import jax
import numpy as np
import pytest
from jax._src import compiler as compiler_lib

from agentrl.algos import gigpo, grpo, online, ppo, reinforce_pp, rloo
from agentrl.data import collate
from agentrl.data.packing import Shape
from agentrl.parallel import compile_waits
from agentrl.runtime import mappings
from agentrl.training import (
    compiled,
    policy_update,
    programs as programs_lib,
    state as state_lib,
)
from agentrl.training.policy_update import Update
from tests import tiny

pytestmark = pytest.mark.usefixtures('quick_compilation')


@pytest.fixture
def compiler():
  with compiled.beside() as executor:
    yield executor


def make(plan, compiler=None, *, few_shapes=programs_lib.MICROBATCHED):
  """A state and the use of collections by the plan's algorithm."""
  critic = plan.hyperparams.critic_settings and 'own'
  loss = online.bind_loss(plan.hyperparams)
  state, _ = tiny.make_learner(loss, critic=critic)
  programs = programs_lib.compile_programs(
      tiny.MODULE,
      loss,
      tiny.optimizer(critic),
      state,
      keep_entropy=True,
      few_shapes=few_shapes,
      compiler=compiler,
  )
  advantages = jax.jit(
      online.bind_advantages(plan.hyperparams), static_argnames='num_groups'
  )
  reference = None
  if plan.hyperparams.kl_coef:
    reference = jax.tree.map(jax.numpy.copy, state.params)
  return state, Update(programs, plan, advantages, lambda n: 0.0, reference)


def learn(state, update, seed=0, **groups):
  batch = tiny.random_batch(seed, **groups)
  return policy_update.update_policy(
      state,
      batch,
      update,
      num_groups=2,
      learnt=np.array(batch.valid),
      kl_coef=0.1,
      rl_step=0,
  )


def counts(update):
  programs = update.programs
  return programs.score.num_compiled(), programs.accumulate.num_compiled()


@pytest.mark.parametrize(
    'algorithm, fields',
    [
        (grpo, {}),
        (grpo, dict(minibatches=2)),
        (grpo, dict(kl_coef=0.1)),
        (grpo, dict(ratio='sampler', minibatches=2)),
        (ppo, {}),
        (ppo, dict(minibatches=2, kl_coef=0.1)),
        (gigpo, {}),
        (rloo, dict(overlong_buffer=20)),
        (reinforce_pp, dict(kl_coef=0.1)),
    ],
    ids=str,
)
def test_what_is_prepared_is_what_a_collection_needs(
    algorithm, fields, compiler
):
  """A microbatch of the prepared shape finds its program, whatever its fields."""
  plan = dataclasses.replace(tiny.plan(algorithm, **fields), episodes=8)
  state, update = make(plan, compiler)
  policy_update.prepare(update, state)
  learn(state, update)
  # A reference is a program of its own beside a critic.
  scored, reference = plan.hyperparams.scores, update.ref_params is not None
  alike = scored and reference and state.critic is None
  assert counts(update) == (scored + reference - alike, 1)


@pytest.mark.parametrize(
    'episodes, minibatches, scored, learnt',
    [(5, 2, 6, 3), (8, 1, 8, 8), (100, 4, 8, 8)],
)
def test_what_is_prepared_is_no_larger_than_a_minibatch(
    compiler, monkeypatch, episodes, minibatches, scored, learnt
):
  plan = tiny.plan(minibatches=minibatches, kl_coef=0.1)
  plan = dataclasses.replace(plan, max_tokens=8 * tiny.ROW, episodes=episodes)
  state, update = make(plan, compiler)
  heights = {}
  for name in programs_lib.MICROBATCHED:
    program = getattr(update.programs, name)
    prepare = lambda shape, *args, name=name: heights.update(
        {name: shape.height}
    )
    monkeypatch.setattr(program, 'prepare', prepare)
  policy_update.prepare(update, state)
  assert heights == dict(score=scored, accumulate=learnt)


def test_nothing_is_prepared_where_nothing_compiles_beside_the_work():
  plan = dataclasses.replace(tiny.plan(), episodes=8)
  state, update = make(plan)
  policy_update.prepare(update, state)
  assert counts(update) == (0, 0)


def wider(plan):
  return dataclasses.replace(plan, max_tokens=8 * tiny.ROW, episodes=8)


@pytest.mark.parametrize('algorithm', [grpo, ppo])
def test_larger_shapes_change_nothing_but_last_bits(algorithm, compiler):
  plan = wider(tiny.plan(algorithm, minibatches=2))
  results = {}
  for name, few in {'exact': (), 'few': programs_lib.MICROBATCHED}.items():
    state, update = make(plan, compiler if few else None, few_shapes=few)
    for program in (update.programs.score, update.programs.accumulate):
      program.shapes.price *= 1e9  # nothing but what serves
    if few:
      policy_update.prepare(update, state)
    results[name] = learn(state, update, failures=0.3)
    if few:
      assert counts(update) == (1, 1)
  exact, few = results['exact'], results['few']
  tiny.assert_trees_close(
      few.state.params, exact.state.params, rtol=1e-4, atol=1e-6
  )
  assert few.metrics['train/padding'] > exact.metrics['train/padding']
  same = ('policy/loss', 'train/grad_norm', 'policy/entropy')
  for name in same:
    assert few.metrics[name] == pytest.approx(exact.metrics[name], rel=1e-4)


def calls(state, programs, **options):
  """Arguments of `accumulate` for each microbatch of a random batch."""
  batch = tiny.random_batch(3)
  batch = batch.replace(advantages=batch.rewards + 1)
  pieces = collate.microbatches(batch, np.arange(8), **options)
  for piece, _ in pieces:
    placed = state_lib.place(piece, programs.mesh)
    yield state.networks, programs.zeros(), placed, tiny.denominators(batch)


@pytest.mark.parametrize('prefixes', [(), (2, 64)])
def test_a_program_that_was_ordered_is_used_when_it_is_there(
    prefixes, compiler, monkeypatch
):
  state, update = make(tiny.plan(), compiler)
  program, threads = update.programs.accumulate, []
  compile_ = program._compile

  def spy(args, first=False):
    threads.append(threading.current_thread())
    return compile_(args)

  monkeypatch.setattr(program, '_compile', spy)
  shape = Shape(2, 64, *prefixes)
  (args,) = calls(state, update.programs, max_tokens=2**20)
  program.prepare(shape, *args)
  program.prepare(shape, *args)  # once is enough
  compiler.submit(lambda: None).result()  # it has been compiled
  assert [t is threading.main_thread() for t in threads] == [False]
  compile_waits.take()
  piece = compiled._resized(state_lib.abstract(args[2]), shape)
  piece = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), piece)
  piece = state_lib.place(piece, update.programs.mesh)
  assert compiled.shape_of(piece) == shape
  program(*args[:2], piece, args[3])
  assert len(threads) == 1
  # One that is not known is compiled at once, and waited for.
  (args,) = calls(state, update.programs, max_tokens=2**20)
  program(*args)
  assert [t is threading.main_thread() for t in threads] == [False, True]


def test_a_wait_for_what_is_being_compiled_is_counted(compiler, monkeypatch):
  compile_waits.listen()
  state, update = make(tiny.plan(), compiler)
  program, begun, go_on = (
      update.programs.accumulate,
      threading.Event(),
      threading.Event(),
  )
  compile_ = program._compile

  def slow(args, first=False):
    begun.set()
    assert go_on.wait(60)
    return compile_(args)

  monkeypatch.setattr(program, '_compile', slow)
  (args,) = calls(state, update.programs, max_tokens=2**20)
  shape = compiled.shape_of(args[2])
  program.prepare(shape, *args)
  assert begun.wait(60)
  compile_waits.take()
  threading.Timer(0.2, go_on.set).start()
  program(*args)
  assert update.programs.compilations()['train/compile_wait_s'] >= 0.2
  assert update.programs.compilations() == {
      'train/compile_wait_s': 0.0,
      'train/programs': 1.0,
  }


def test_what_cannot_be_compiled_beside_the_work_is_told_of(
    compiler, monkeypatch, caplog
):
  state, update = make(tiny.plan(), compiler)
  program = update.programs.accumulate
  (args,) = calls(state, update.programs, max_tokens=2**20)

  def fail(args, first=False):
    raise RuntimeError('out of something')

  with monkeypatch.context() as patched:
    patched.setattr(program, '_compile', fail)
    program.prepare(compiled.shape_of(args[2]), *args)
    compiler.submit(lambda: None).result()
  assert 'No program for Shape(' in caplog.text
  assert 'out of something' in caplog.text
  program(*args)  # tried again, as it is needed


def test_the_price_of_a_program_is_what_is_run_while_it_is_compiled(
    compiler, monkeypatch
):
  state, update = make(tiny.plan(), compiler)
  program = update.programs.accumulate
  monkeypatch.setattr(program, '_find', lambda args: lambda *args: None)
  (args,) = calls(state, update.programs, max_tokens=2**20)
  cost = program.shapes.cost(compiled.shape_of(args[2]))
  clock = iter([10.0, 20.0])
  monkeypatch.setattr(compiled.time, 'perf_counter', lambda: next(clock))
  with program.timed():
    # The second was read, and took 7.5 s when it was compiled.
    program._compile_s += [4.5, 0.5]
    program._saved_s += [0.0, 7.0]
    program._waited_s = 5.0
    program(*args)
  # Ten seconds, of which it waited for five.
  assert program.shapes.price == pytest.approx(6.0 * cost / 5.0)


def test_shapes_that_were_compiled_before_are_known(compiler, monkeypatch):
  notes = {}

  class Notes:

    def __init__(self, program):
      self._shapes = notes.setdefault(program, set())

    def read(self):
      return set(self._shapes)

    def add(self, shape):
      assert tuple(shape) not in self._shapes  # a line each
      self._shapes.add(tuple(shape))

  monkeypatch.setattr(compiled.compile_cache, 'Notes', Notes)

  def run(cut, module=grpo):
    """A program that is prepared for a large shape, and run on what comes."""
    state, update = make(tiny.plan(module), compiler)
    program = update.programs.accumulate
    (args,) = calls(state, update.programs, max_tokens=2**20)
    for shape in (Shape(8, 128), cut):
      program.prepare(shape, *args)
    compiler.submit(lambda: None).result()
    return program.shapes

  assert run(Shape(2, 32)).kept == set()
  assert run(Shape(2, 64)).kept == {(8, 128, 0, 0), (2, 32, 0, 0)}
  assert run(Shape(2, 64)).kept == {
      (8, 128, 0, 0),
      (2, 32, 0, 0),
      (2, 64, 0, 0),
  }
  # Of another loss.
  assert run(Shape(2, 64), ppo).kept == set()


def test_what_was_compiled_before_saves_the_thread_that_reads_it():
  # JAX keeps compile times in whole seconds: too few for a program of a test.
  event = compile_waits._SAVED
  assert f"'{event}'" in inspect.getsource(compiler_lib)
  compile_waits.listen()
  compile_waits.take_saved()
  for seconds in (1.5, -0.25, 2.0):  # reading may take longer than compiling
    jax.monitoring.record_event_duration_secs(event, seconds)
  assert compile_waits.take_saved() == 3.5
  assert compile_waits.take_saved() == 0.0


def test_a_run_that_ends_has_nothing_more_compiled(compiler):
  state, update = make(tiny.plan(), compiler)
  program = update.programs.accumulate
  update.programs.settle()
  (args,) = calls(state, update.programs, max_tokens=2**20)
  program._orders.append(Shape(2, 64))
  program(*args)
  compiler.submit(lambda: None).result()
  assert program.num_compiled() == 1


def test_a_process_without_room_for_programs_compiles_no_better_ones(
    compiler, monkeypatch
):
  state, update = make(tiny.plan(), compiler)
  program = update.programs.accumulate
  for crowded, count in ((True, 1), (False, 2)):
    monkeypatch.setattr(mappings, 'crowded', lambda full=crowded: full)
    (args,) = calls(state, update.programs, max_tokens=2**20)
    program._orders.append(Shape(2, 64))
    program(*args)  # what is needed now is compiled in any case
    compiler.submit(lambda: None).result()
    assert program.num_compiled() == count and not program._orders


def test_waits_that_enclose_others_are_counted_once():
  jitted = jax.jit(lambda x: jax.jit(lambda y: y * 3.14)(x).sum())
  compile_waits.listen()
  compile_waits.take()
  start = compiled.time.perf_counter()
  jitted(np.ones(17, np.float32))
  seconds = compiled.time.perf_counter() - start
  assert 0 < compile_waits.take() <= seconds
  jitted(np.ones(17, np.float32))
  assert compile_waits.take() == 0

  def elsewhere():
    jitted(np.ones(18, np.float32))
    found.append(compile_waits.take())

  found = []
  thread = threading.Thread(target=elsewhere)
  thread.start()
  thread.join()
  assert found[0] > 0 and compile_waits.take() == 0
