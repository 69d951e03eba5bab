"""Tests for agentrl.training.checkpoint."""

import contextlib
import dataclasses
import errno
import functools
import json
import logging
import math
import pathlib
import resource
import shutil
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest

from agentrl.errors import CheckpointError
from agentrl.models import variants
from agentrl.models.config import SLIDING
from agentrl.runtime import workdir as workdir_lib
from agentrl.training import checkpoint, checksums
from agentrl.training.checkpoint import Checkpoints
from tests import small_disk, tiny

HOST = {'books': {'step': 3, 'stats': {'a/b': 0.1, 'a/c': math.inf}}}


def make_tree(seed=0, megabytes=1):
  size = megabytes * 2**18
  values = np.random.default_rng(seed).random(size, np.float32)
  return {
      'params': {'w': jnp.asarray(values)},
      'optimizer': {'n': jnp.int32(7)},
  }


def like(tree):
  return jax.tree.map(
      lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding),
      tree,
  )


@pytest.fixture(name='open_checkpoints')
def _open_checkpoints(tmp_path):
  """Opens managers of one directory, as runs one after another do."""
  with contextlib.ExitStack() as stack:

    def open_checkpoints(directory=tmp_path / 'checkpoints', **settings):
      checkpoints = Checkpoints(directory, **settings)
      # Orbax waits for a save at exit; its failures are tested, not cleaned up.
      stack.callback(checkpoints.close)
      return checkpoints

    yield open_checkpoints


def test_round_trip_in_another_process_of_the_run(open_checkpoints):
  state = tiny.new_state()
  items = {
      'params': state.params,
      'optimizer': {'step': state.step, 'opt_state': state.opt_state},
  }
  first = open_checkpoints()
  assert first.latest is None
  first.save(3, items, HOST)
  first.wait()
  second = open_checkpoints()
  assert second.latest == 3 and second.host() == HOST
  restored = second.restore(like(items))
  tiny.assert_trees_equal(restored, items)
  places = lambda tree: [leaf.sharding for leaf in jax.tree.leaves(tree)]
  assert places(restored) == places(items)
  # Whoever serves the policy reads the parameters alone.
  alone = second.restore({'params': like(state.params)})
  assert alone.keys() == {'params'}
  tiny.assert_trees_equal(alone['params'], state.params)


def test_the_newest_are_kept(open_checkpoints):
  checkpoints = open_checkpoints(keep=2)
  trees = {number: make_tree(number) for number in (0, 5, 10)}
  for number, tree in trees.items():
    checkpoints.save(number, tree, {'number': number})
  checkpoints.wait()
  again = open_checkpoints(keep=2)
  assert again.latest == 10
  for number in (5, 10):
    assert again.host(number) == {'number': number}
    tiny.assert_trees_equal(
        again.restore(like(trees[number]), number), trees[number]
    )
  with pytest.raises(CheckpointError, match='Checkpoint 0 .* not found'):
    again.restore(like(trees[0]), 0)


@functools.partial(jax.jit, donate_argnums=0)
def donating_update(tree):
  return jax.tree.map(lambda x: x * 0 - 1, tree)


def test_the_best_is_kept_and_named_beside_the_newest(
    open_checkpoints, tmp_path
):
  folder, tree = tmp_path / 'checkpoints', make_tree()
  named = lambda: workdir_lib.best_checkpoint(folder)
  checkpoints = open_checkpoints(keep=1)

  def save(number, best, checkpoints=checkpoints):
    checkpoints.keep_best(best)
    checkpoints.save(number, tree, {'number': number})

  save(0, 0)
  save(2, 2)
  # Not before it is complete; and until then the one before stays.
  assert named() == 0 and checkpoints.numbers == [0, 2]
  save(3, 2)
  assert named() == 2 and checkpoints.numbers == [2, 3]
  save(4, 2)
  checkpoints.wait()
  assert named() == 2 and checkpoints.numbers == [2, 4]
  # A run that goes on keeps what is named, and may name another.
  again = open_checkpoints(keep=1)
  save(5, 2, again)
  again.wait()
  assert named() == 2 and again.numbers == [2, 5]
  again.keep_best(5)
  assert named() == 5
  again.save(6, tree, {})
  again.wait()
  assert named() == 5 and again.numbers == [5, 6]
  tiny.assert_trees_equal(again.restore(like(tree), 5), tree)


def test_a_failed_save_of_the_best_leaves_the_name_of_the_one_before(
    open_checkpoints, tmp_path, monkeypatch
):
  folder, tree = tmp_path / 'checkpoints', make_tree()
  checkpoints = open_checkpoints(keep=1)
  checkpoints.keep_best(0)
  checkpoints.save(0, tree, {})
  checkpoints.wait()

  def fail(directory):
    raise OSError(errno.ENOSPC, 'No space left on device')

  with monkeypatch.context() as patch:
    patch.setattr(checksums, 'write', fail)
    checkpoints.keep_best(1)
    checkpoints.save(1, tree, {})
    with pytest.raises(CheckpointError, match='No space left'):
      checkpoints.wait()
  assert workdir_lib.best_checkpoint(folder) == 0
  assert open_checkpoints(keep=1).numbers == [0]


def test_a_donated_update_does_not_reach_a_save_under_way(open_checkpoints):
  checkpoints = open_checkpoints(keep=4)
  expected = {}
  for number in range(3):
    tree = make_tree(number, megabytes=16)
    expected[number] = jax.tree.map(np.array, tree)
    checkpoints.save(number, tree, {})
    changed = jax.block_until_ready(donating_update(tree))
    assert (changed['params']['w'] == -1).all()
  checkpoints.wait()
  for number, tree in expected.items():
    tiny.assert_trees_equal(checkpoints.restore(like(changed), number), tree)


def test_no_checkpoint_is_said_so(open_checkpoints):
  checkpoints = open_checkpoints()
  for read in (checkpoints.host, lambda: checkpoints.restore({})):
    with pytest.raises(CheckpointError, match='There is no checkpoint in /'):
      read()


@pytest.mark.parametrize(
    'other, reason',
    [
        (
            {'params': {'w': jnp.zeros(3)}, 'optimizer': {'n': jnp.int32(0)}},
            r'shape: \(3,\) .* stored shape: \(262144,\)',
        ),
        (
            {'params': {'v': jnp.zeros(2**18)}},
            'tree structures do not match.* v:',
        ),
        ({'ref_params': {'w': jnp.zeros(2**18)}}, 'Item "ref_params" was not'),
    ],
)
def test_another_model_is_refused_in_one_line(open_checkpoints, other, reason):
  checkpoints = open_checkpoints()
  checkpoints.save(1, make_tree(), {})
  checkpoints.wait()
  with pytest.raises(
      CheckpointError, match=f'not of this model.*{reason}.*Use the config'
  ) as caught:
    checkpoints.restore(like(other))
  assert '\n' not in str(caught.value) and len(str(caught.value)) < 800


def largest_file(directory):
  files = [path for path in directory.rglob('*') if path.is_file()]
  return max(files, key=lambda path: path.stat().st_size)


def test_a_damaged_checkpoint_names_itself_and_the_older_one_is_readable(
    open_checkpoints, tmp_path
):
  checkpoints = open_checkpoints()
  for number in (1, 2):
    checkpoints.save(number, make_tree(number), {'number': number})
  checkpoints.wait()
  damaged = largest_file(tmp_path / 'checkpoints' / '2' / 'params')
  damaged.write_bytes(damaged.read_bytes()[:1000])
  again = open_checkpoints()
  with pytest.raises(
      CheckpointError, match='Checkpoint 2 .* damaged.* Remove .*/2 to go on'
  ):
    again.restore(like(make_tree()))
  tiny.assert_trees_equal(again.restore(like(make_tree()), 1), make_tree(1))


def flip(path, count, seed=0):
  """Inverts one bit in each of `count` bytes of a file."""
  data = np.frombuffer(path.read_bytes(), np.uint8).copy()
  rng = np.random.default_rng(seed)
  data[rng.choice(data.size, count, replace=False)] ^= 1
  path.write_bytes(data.tobytes())


@pytest.mark.parametrize('count', [1, 64])
def test_flipped_bytes_are_found_and_the_file_is_named(
    open_checkpoints, tmp_path, count
):
  checkpoints = open_checkpoints()
  for number in (1, 2):
    checkpoints.save(number, make_tree(number), {'number': number})
  checkpoints.wait()
  directory = tmp_path / 'checkpoints' / '2'
  damaged = largest_file(directory / 'params')
  flip(damaged, count)
  again = open_checkpoints()
  name = damaged.relative_to(directory)
  with pytest.raises(
      CheckpointError,
      match=(
          f'Checkpoint 2 in .* is damaged: {name} is not what was written.'
          f' Remove {directory} to go on from checkpoint 1.$'
      ),
  ) as caught:
    again.restore(like(make_tree()))
  assert '\n' not in str(caught.value)
  # Items that are not asked for are not read.
  optimizer = like({'optimizer': make_tree()['optimizer']})
  assert again.restore(optimizer)['optimizer']['n'] == 7
  assert again.host() == {'number': 2}
  tiny.assert_trees_equal(again.restore(like(make_tree()), 1), make_tree(1))


def files_of(directory):
  return sorted(
      path
      for path in directory.rglob('*')
      if path.is_file() and path.parent != directory
  )


def test_damage_to_any_file_of_an_item_is_found(open_checkpoints, tmp_path):
  checkpoints = open_checkpoints()
  checkpoints.save(1, make_tree(), HOST)
  checkpoints.wait()
  directory = tmp_path / 'checkpoints' / '1'
  paths = files_of(directory)
  assert len(paths) > 10

  def read():
    checkpoints.host(1)
    checkpoints.restore(like(make_tree()), 1)

  for path in paths:
    name = path.relative_to(directory)
    content = path.read_bytes()
    flip(path, 1)
    with pytest.raises(CheckpointError, match=f'{name} is not what was writ'):
      read()
    path.unlink()
    with pytest.raises(
        CheckpointError, match=f'{name} is missing. There is no'
    ):
      read()
    path.write_bytes(content)
  read()


@pytest.mark.parametrize(
    'text', ['', '{"a', '[1]', '{"params/a": 3}', '7', '{}']
)
def test_a_damaged_list_of_checksums_is_refused(
    open_checkpoints, tmp_path, text
):
  checkpoints = open_checkpoints()
  checkpoints.save(1, make_tree(), HOST)
  checkpoints.wait()
  (tmp_path / 'checkpoints' / '1' / 'checksums.json').write_text(text)
  with pytest.raises(CheckpointError, match='Checkpoint 1 .* is damaged: '):
    checkpoints.restore(like(make_tree()))


def test_a_checkpoint_of_before_there_were_checksums_is_read_with_a_warning(
    open_checkpoints, tmp_path, caplog
):
  checkpoints = open_checkpoints()
  checkpoints.save(1, make_tree(), HOST)
  checkpoints.wait()
  (tmp_path / 'checkpoints' / '1' / 'checksums.json').unlink()
  logging.getLogger('absl').addHandler(caplog.handler)
  try:
    again = open_checkpoints().restore(like(make_tree()))
  finally:
    logging.getLogger('absl').removeHandler(caplog.handler)
  tiny.assert_trees_equal(again, make_tree())
  assert 'Checkpoint 1 in ' in caplog.text
  assert 'has no checksums' in caplog.text


def test_a_save_killed_at_its_last_act_is_no_checkpoint(
    open_checkpoints, tmp_path
):
  """What has its checksums, but not its final name, does not count."""
  checkpoints = open_checkpoints()
  checkpoints.save(1, make_tree(1), {})
  checkpoints.wait()
  whole = tmp_path / 'checkpoints' / '1'
  shutil.copytree(whole, tmp_path / 'checkpoints' / '2.orbax-checkpoint-tmp')
  assert (whole / 'checksums.json').is_file()
  again = open_checkpoints()
  assert again.latest == 1 and again.numbers == [1]


def test_checksums_are_of_every_item_and_written_before_the_final_name(
    open_checkpoints, tmp_path, monkeypatch
):
  seen = []
  write = checksums.write

  def spy(directory):
    seen.append((directory.name, files_of(directory)))
    write(directory)

  monkeypatch.setattr(checksums, 'write', spy)
  checkpoints = open_checkpoints()
  checkpoints.save(1, make_tree(), HOST)
  checkpoints.wait()
  [(name, files)] = seen
  assert name == '1.orbax-checkpoint-tmp'
  directory = tmp_path / 'checkpoints' / '1'
  listed = json.loads((directory / 'checksums.json').read_text())
  assert list(listed) == [
      path.relative_to(directory).as_posix() for path in files_of(directory)
  ]
  assert len(listed) == len(files)


def test_a_damaged_host_record_names_itself(open_checkpoints, tmp_path):
  checkpoints = open_checkpoints()
  checkpoints.save(1, make_tree(), HOST)
  checkpoints.wait()
  record = tmp_path / 'checkpoints' / '1' / 'host' / 'metadata'
  record.write_text(record.read_text()[:9])
  with pytest.raises(CheckpointError, match='Checkpoint 1 .* damaged'):
    open_checkpoints().host()


def test_a_save_that_was_killed_is_no_checkpoint(open_checkpoints, tmp_path):
  checkpoints = open_checkpoints()
  checkpoints.save(1, make_tree(1), {})
  checkpoints.wait()
  partial = tmp_path / 'checkpoints' / '2.orbax-checkpoint-tmp' / 'params'
  partial.mkdir(parents=True)
  again = open_checkpoints()
  assert again.latest == 1
  again.save(2, make_tree(2), {})  # the resumed run comes to the same step
  again.wait()
  assert again.latest == 2 and not partial.exists()


def test_a_number_that_exists_is_refused(open_checkpoints):
  checkpoints = open_checkpoints()
  checkpoints.save(4, make_tree(), {})
  checkpoints.wait()
  with pytest.raises(CheckpointError, match='Checkpoint 4 was not written'):
    checkpoints.save(4, make_tree(1), {})


def test_a_host_record_that_is_no_json_fails_before_anything_is_written(
    open_checkpoints,
):
  checkpoints = open_checkpoints()
  with pytest.raises(TypeError, match='not JSON serializable'):
    checkpoints.save(1, make_tree(), {'books': object()})
  assert checkpoints.latest is None


def test_a_directory_that_cannot_be_made_is_refused(tmp_path):
  (tmp_path / 'file').write_text('')
  with pytest.raises(CheckpointError, match='Cannot use .*file/checkpoints'):
    Checkpoints(tmp_path / 'file' / 'checkpoints')


@pytest.mark.parametrize(
    'error',
    [
        OSError(errno.ENOSPC, 'No space left on device', '/run/checkpoints/1'),
        ValueError('Writing "a": [Errno 28] No space left on device'),
        ValueError('Writing "a": No space left on device [os_error_code=28]'),
    ],
)
def test_a_failed_write_gives_the_systems_reason_whoever_reports_it(
    tmp_path, monkeypatch, error
):
  checkpoints = Checkpoints(tmp_path / 'checkpoints')

  def save(*args, **kwargs):
    raise error

  monkeypatch.setattr(ocp.CheckpointManager, 'save', save)
  with pytest.raises(
      CheckpointError, match='checkpoints: No space left on device. There is no'
  ):
    checkpoints.save(1, make_tree(), {})


@pytest.mark.parametrize(
    'error',
    [
        RuntimeError("can't start new thread"),
        OSError(errno.ENOMEM, 'Cannot allocate memory'),
    ],
)
def test_a_write_without_memory_does_not_blame_the_folder(
    tmp_path, monkeypatch, error
):
  checkpoints = Checkpoints(tmp_path / 'checkpoints')

  def save(*args, **kwargs):
    raise error

  monkeypatch.setattr(ocp.CheckpointManager, 'save', save)
  with pytest.raises(CheckpointError, match='; free some memory and start'):
    checkpoints.save(1, make_tree(), {})


@contextlib.contextmanager
def small_files(directory):
  """Files stop growing at 3 megabytes, for any user."""
  del directory
  soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
  resource.setrlimit(resource.RLIMIT_FSIZE, (3 * 2**20, hard))
  try:
    yield
  finally:
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(
    'disk, reason',
    [
        (
            functools.partial(small_disk.mounted, megabytes=5),
            'No space left on device',
        ),
        (small_files, 'File too large'),
    ],
)
@pytest.mark.parametrize('ends_with', ['wait', 'save', 'close'])
def test_a_full_disk_is_one_clear_error_and_the_checkpoint_before_is_loadable(
    tmp_path, caplog, disk, reason, ends_with
):
  directory = tmp_path / 'run'
  small, large = make_tree(1), make_tree(2, megabytes=8)
  with disk(directory), caplog.at_level(logging.WARNING):
    checkpoints = Checkpoints(directory / 'checkpoints', keep=1)
    checkpoints.save(1, small, {'number': 1})
    checkpoints.wait()
    end = dict(
        wait=checkpoints.wait,
        save=lambda: checkpoints.save(3, large, {}),
        close=checkpoints.close,
    )[ends_with]
    with pytest.raises(
        CheckpointError,
        match=f'{directory}/checkpoints: {reason}. Checkpoint 1 is intact',
    ):
      checkpoints.save(2, large, {})
      end()
    assert not [r for r in caplog.records if r.exc_info]  # no traceback
    assert checkpoints.latest == 1
    checkpoints.close()

    # The same command again, once there is room: nothing partial is left.
    names = [path.name for path in (directory / 'checkpoints').iterdir()]
    assert names == ['1']
    again = Checkpoints(directory / 'checkpoints', keep=1)
    assert again.host() == {'number': 1}
    tiny.assert_trees_equal(again.restore(like(small)), small)
    again.save(2, small, {'number': 2})
    again.close()
    assert Checkpoints(directory / 'checkpoints').host() == {'number': 2}


_SAVE_TWICE = """
import pathlib, subprocess, sys
import jax.numpy as jnp
from agentrl.errors import CheckpointError
from agentrl.runtime import ending
from agentrl.training.checkpoint import Checkpoints

checkpoints = Checkpoints(pathlib.Path(sys.argv[1]))
tree = {x: {'w': jnp.ones((300, 300))} for x in ('params', 'optimizer')}
checkpoints.save(1, tree, {})
checkpoints.wait()
subprocess.run(['sh', '-c', sys.argv[2]], check=True)
try:
  checkpoints.save(2, tree, {})
  checkpoints.close()
except CheckpointError as error:
  print(error, file=sys.stderr)
  ending.end(2)
"""


@pytest.mark.parametrize(
    'breaks, mends, said',
    [
        ('mv DIR DIR.old; touch DIR', '', 'Not a directory'),
        ('mv DIR DIR.old; ln -s /nowhere DIR', '', 'could not be written'),
        ('chattr +i DIR', 'chattr -i DIR', 'Operation not permitted'),
        (
            'mount --bind DIR DIR && mount -o remount,ro,bind DIR',
            'umount DIR',
            'Read-only file system',
        ),
        (
            'mount -t tmpfs -o nr_inodes=4 none DIR',
            'umount -l DIR',
            'No space left on device. There is no older one; free some space',
        ),
    ],
)
def test_a_failed_save_ends_the_process_in_seconds_with_one_line(
    tmp_path, breaks, mends, said
):
  directory = str(tmp_path / 'checkpoints')
  breaks, mends = (x.replace('DIR', directory) for x in (breaks, mends))
  began = time.monotonic()
  try:
    done = subprocess.run(
        [sys.executable, '-c', _SAVE_TWICE, directory, breaks],
        cwd=pathlib.Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=100,
    )
  finally:
    subprocess.run(['sh', '-c', mends or 'true'], capture_output=True)
  if f"'{breaks}'" in done.stderr and 'CalledProcessError' in done.stderr:
    pytest.skip('this user may not break a disk so')
  assert done.returncode == 2, done.stderr
  lines = done.stderr.strip().splitlines()
  assert len(lines) == 1, done.stderr
  line = lines[0]
  assert said in line and directory in line
  assert ('free some space' in line) == ('No space' in line)
  assert time.monotonic() - began < 60  # which a busy machine takes to start


_SAVE_FOR_EVER = """
import pathlib, sys
import jax.numpy as jnp
from agentrl.models import variants
from agentrl.models.config import SLIDING
from agentrl.training import checkpoint
from agentrl.training.checkpoint import Checkpoints

checkpoints = Checkpoints(pathlib.Path(sys.argv[1]), keep=1)
number = -1 if checkpoints.latest is None else checkpoints.latest
while True:
  number += 1
  tree = {'params': {'w': jnp.full(2**19, number, jnp.float32)}}
  checkpoints.save(number, tree, {'number': number})
  checkpoints.wait()
  print(number, flush=True)
"""


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_a_whole_checkpoint(
    open_checkpoints, tmp_path
):
  directory = tmp_path / 'checkpoints'
  rng = np.random.default_rng(0)
  before = -1
  for _ in range(8):
    with subprocess.Popen(
        [sys.executable, '-c', _SAVE_FOR_EVER, str(directory)],
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
      said = int(child.stdout.readline())  # it is at it
      time.sleep(rng.uniform(0, 0.3))
      child.kill()
      said = max([said, *map(int, child.stdout)])
    again = open_checkpoints(directory, keep=1)
    newest = again.latest
    # One may have been renamed and not yet been told of.
    assert newest in (said, said + 1) and newest > before
    before = newest
    tree = {'params': {'w': jnp.full(2**19, newest, jnp.float32)}}
    tiny.assert_trees_equal(again.restore(like(tree)), tree)
    assert again.host() == {'number': newest}


def kept(config):
  """As a checkpoint has it."""
  return json.loads(json.dumps(dataclasses.asdict(config)))


@pytest.mark.parametrize('name', ['tiny-1m', 'gemma3-1b', 'llama3.2-1b'])
def test_a_model_goes_on_from_its_own_checkpoint(name):
  config = variants.get(name)
  checkpoint.check_model(kept(config), config, 'It')
  # Fields that came after a checkpoint have the values of before.
  old = kept(tiny.CONFIG)
  del old['num_experts'], old['hidden_act']
  checkpoint.check_model(old, tiny.CONFIG, 'It')


@pytest.mark.parametrize(
    'changes, said',
    [
        (
            dict(num_layers=tiny.CONFIG.num_layers + 1),
            f'num_layers={tiny.CONFIG.num_layers},',
        ),
        # The arrays of these would fit.
        (dict(rope_theta=5e5), 'rope_theta=10000.0, .* 500000.0'),
        (
            dict(
                layer_types=(SLIDING,) * tiny.CONFIG.num_layers,
                sliding_window=8,
            ),
            'sliding_window=None, .* 8',
        ),
    ],
)
def test_a_checkpoint_of_another_architecture_is_refused(changes, said):
  with pytest.raises(CheckpointError, match=f'^It is of .*{said}.*--workdir'):
    checkpoint.check_model(
        kept(tiny.CONFIG), dataclasses.replace(tiny.CONFIG, **changes), 'It'
    )
