"""Sharded equals unsharded: one update on meshes of simulated devices.

And two processes equal one.
"""

import itertools

import numpy as np
import pytest

from tests.parallel import eight_devices

ALONE = '1x1x1x1'
# Devices along data, fsdp, tensor and sequence; then what each device holds of
# the [32, 16] embedding.
MESHES = {
    '8x1x1x1': (32, 16),
    '1x8x1x1': (32, 2),
    '1x1x8x1': (4, 16),
    '1x1x1x8': (32, 16),
    '2x4x1x1': (32, 4),
    '1x1x4x2': (8, 16),
    '1x2x1x4': (32, 8),
    '2x2x2x1': (16, 8),
    '2x1x2x2': (16, 16),
    '1x2x2x2': (16, 8),
}
GRID = [
    '/'.join(parts)
    for parts in itertools.product(MESHES, ('none', 'own'), '124')
]
# Every axis, any number of microbatches, with and without a critic; the whole
# grid is slow.
QUICK = ['8x1x1x1/none/4', '2x2x2x1/none/2', '1x2x2x2/own/1']
WORK = ['1x1x8x1/work', '1x1x1x8/work']
OTHERS = [
    '1x2x2x2/copies',
    '1x2x1x4/chunks',
    '2x2x2x1/chunks',
    '2x2x2x1/prefixes',
]
SENT = ['1x4x2x1/sent', '2x2x1x2/sent', '8x1x1x1/sent']
ADAPTERS = ['1x2x2x2/adapter']
# Two processes of four devices share rows, parameters or both.
SHARED = '2x2x2x1/none/2'
SLOW_SHARED = ['1x2x2x2/own/4', '1x8x1x1/none/2', '1x1x1x8/none/1']
MODULE = 'tests.parallel.simulated_devices'


def run(tmp_path_factory, cases):
  """Arrays by case and name, all from one process with eight devices."""
  path = tmp_path_factory.mktemp('devices') / 'updates.npz'
  alone = [f'{ALONE}/{case.partition("/")[2]}' for case in cases]
  alone = [f'{case[:-1]}1' if case[-1].isdecimal() else case for case in alone]
  found = {}
  for key, value in eight_devices.arrays_of(
      MODULE, path, *dict.fromkeys(alone + cases)
  ).items():
    case = next(c for c in [*cases, *alone] if key.startswith(f'{c}/'))
    found.setdefault(case, {})[key.removeprefix(f'{case}/')] = value
  return found


@pytest.fixture(scope='module', name='updates')
def _updates(tmp_path_factory):
  return run(tmp_path_factory, QUICK + OTHERS + SENT + ADAPTERS + WORK)


@pytest.fixture(scope='module', name='grid')
def _grid(tmp_path_factory):
  return run(tmp_path_factory, GRID)


def assert_same(actual, expected):
  assert actual.keys() == expected.keys()
  for name, value in expected.items():
    # float32 sums in another order; a KL that is 0 is a difference of ones.
    scale = max(np.abs(value).max(), 1e-3 if 'metrics' in name else 0.0)
    np.testing.assert_allclose(
        actual[name], value, rtol=1e-5, atol=1e-5 * scale, err_msg=name
    )


def assert_equals_one_device(updates, case):
  mesh, critic, _ = case.split('/')
  actual, expected = dict(updates[case]), dict(updates[f'{ALONE}/{critic}/1'])
  assert len(expected) > 40
  assert tuple(actual.pop('shard')) == MESHES[mesh]
  del expected['shard']
  assert_same(actual, expected)


@pytest.mark.parametrize('case', QUICK)
def test_any_mesh_gives_the_same_update(updates, case):
  assert_equals_one_device(updates, case)


@pytest.mark.slow
@pytest.mark.parametrize('case', GRID)
def test_every_mesh_critic_and_microbatch_gives_the_same_update(grid, case):
  assert_equals_one_device(grid, case)


def assert_equals_one_process(updates, case, path):
  found = eight_devices.arrays_of(MODULE, path, case, processes=2)
  two = {name.removeprefix(f'{case}/'): x for name, x in found.items()}
  assert len(two) > 40
  assert_same(two, updates[case])


def test_two_processes_make_the_update_of_one(updates, tmp_path):
  assert_equals_one_process(updates, SHARED, tmp_path / 'two.npz')


@pytest.mark.slow
@pytest.mark.parametrize('case', SLOW_SHARED)
def test_two_processes_make_every_update_of_one(grid, tmp_path, case):
  assert_equals_one_process(grid, case, tmp_path / 'two.npz')


@pytest.mark.parametrize('case', OTHERS)
def test_any_mesh_gives_the_same_scores_copies_and_pieces(updates, case):
  mesh, _, what = case.partition('/')
  assert_same(updates[case], updates[f'{ALONE}/{what}'])


@pytest.mark.parametrize('case', ADAPTERS)
def test_any_mesh_gives_the_same_update_of_an_adapter(updates, case):
  actual = dict(updates[case])
  expected = dict(updates[f'{ALONE}/adapter'])
  # A [L, in, rank] is split by `fsdp`, B [L, rank, out] by `tensor`.
  np.testing.assert_array_equal(actual.pop('split'), expected.pop('split') * 4)
  assert expected['metrics/critic/grad_norm'] > 1e-3
  assert_same(actual, expected)


@pytest.mark.parametrize('case', WORK)
def test_no_device_does_the_work_of_another(updates, case):
  # An eighth each; what many devices repeat (norms, key heads) is little.
  alone = updates[f'{ALONE}/work']['flops']
  assert 0.9 * alone / 8 < updates[case]['flops'] < 1.25 * alone / 8


@pytest.mark.parametrize('kernel', ['tied', 'untied', 'narrow', 'frozen'])
@pytest.mark.parametrize('case', SENT)
def test_four_pieces_send_the_output_kernel_and_its_gradient_once(
    updates, case, kernel
):
  data, fsdp, tensor, sequence = map(int, case.partition('/')[0].split('x'))
  sent = {
      name.removeprefix(f'{kernel}/'): tuple(value)
      for name, value in updates[case].items()
      if name.startswith(f'{kernel}/')
  }
  # A device's part of the [VOCAB, 16] kernel, float32: in bfloat16 too its
  # gradient is, and a CPU's compiler sends nothing of less.
  part = 4 * 4096 * 16 // tensor
  expected = {}
  if fsdp > 1:
    expected[f'all-gather/{fsdp}'] = (1, part)
  if kernel != 'frozen':
    if fsdp > 1:
      expected[f'reduce-scatter/{fsdp}'] = (1, part)
    if data * sequence > 1:
      expected[f'all-reduce/{data * sequence}'] = (1, part // fsdp)
  # What is left is of tokens: 16 numbers each, and there are 64 on a device.
  rest = {name: sent[name] for name in sent.keys() - expected.keys()}
  assert {name: sent.get(name) for name in expected} == expected
  assert all(size <= 4 * 64 * 16 for _, size in rest.values())


def test_the_update_is_one_that_could_have_differed(updates):
  alone = updates[f'{ALONE}/own/1']
  assert alone['metrics/train/grad_norm'] > 1e-3
  grads = [x for name, x in alone.items() if name.startswith('grads/')]
  assert len(grads) > 20 and all(np.abs(x).max() > 0 for x in grads)
