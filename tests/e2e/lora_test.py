"""Adapters as a user trains them, over a policy that was trained in full."""

import json
import shutil

import jax
import numpy as np
import pytest

from agentrl.training import language_model
from agentrl.weights import hf
from tests import tiny
from tests.e2e.running import (
    SHORT,
    finish,
    finish_killed,
    launch,
    lines,
    measured,
    small,
)

pytestmark = pytest.mark.slow
SFT = small('babyai_sft')
# PPO: the critic has an adapter of its own; with a reference policy.
RL = small('quickstart', 'algo=ppo')
RL_FLAGS = (
    '--config.warmstart.episodes=8',
    '--config.eval.num_tasks=0',
    '--config.rollout.tasks_per_step=1',
    '--config.rollout.group_size=2',
    '--config.sampler.max_running=2',
    '--config.sampler.deterministic=True',
    '--config.algo.kl_coef=0.01',
    '--config.model.lora.rank=4',
)


def size_of_params(checkpoint):
  """Bytes of the arrays: in a tiny network what describes them has more."""
  written = (checkpoint / 'params' / 'ocdbt.process_0').rglob('*')
  return sum(path.stat().st_size for path in written if path.is_file())


@pytest.fixture(scope='module')
def base(tmp_path_factory):
  directory = tmp_path_factory.mktemp('runs') / 'base'
  finish(directory, '--config.eval.num_tasks=0', config=SFT)
  return directory


def test_a_killed_run_continues_its_adapter_as_if_nothing_had_happened(
    base, tmp_path
):
  whole, killed = tmp_path / 'whole', tmp_path / 'killed'
  flags = (*RL_FLAGS, f'--config.model.name={base}')
  finish(whole, *flags, config=RL)
  finish_killed(killed, *flags, config=RL)
  expected = measured(whole / 'metrics.jsonl')
  assert measured(killed / 'metrics.jsonl') == expected
  assert len(expected) == 2
  for line in expected:
    # The engine has what was merged, the trainer the two apart.
    assert line['sampler/logprob_abs_diff_mean'] < 1e-4
    assert line['sampler/stale_turns'] == 0
    assert 'critic/grad_norm' in line and 'policy/kl_ref' in line
  assert (
      0
      < size_of_params(whole / 'checkpoints' / '2')
      < (size_of_params(base / 'checkpoints' / '6') / 3)
  )

  # As a folder of the adapter alone it is the same policy, asked as it was.
  folder = tmp_path / 'adapter'
  said = finish(
      folder,
      '--config.export.adapter=True',
      config=f'configs/export.py:run={whole}',
  )
  assert f'to be added to {base}' in ' '.join(said.split())
  assert '`peft`' in (folder / 'README.md').read_text()
  policies = [language_model.load_policy(str(d))[0] for d in (whole, folder)]
  tiny.assert_trees_equal(*(policy.params for policy in policies))
  finish(tmp_path / 'played', config=f'configs/evaluate.py:model={folder},n=2')
  refused = launch(
      tmp_path / 'none',
      '--config.export.adapter=True',
      config=f'configs/export.py:run={base}',
  )
  assert refused.returncode == 2 and 'no adapter' in refused.stderr

  config = f'configs/evaluate.py:model={whole},n=2'
  finish(tmp_path / 'eval', config=config)
  summary = json.loads((tmp_path / 'eval' / 'summary.json').read_text())
  assert summary['weight_version'] == '3'


def test_sft_trains_an_adapter_and_no_other_goes_on_with_it(base, tmp_path):
  flags = (
      f'--config.model.name={base}',
      '--config.eval.num_tasks=0',
      '--config.model.lora.rank=8',
      '--config.optim.lr=3e-3',
  )
  finish(tmp_path, *flags, config=SFT)
  history = lines(tmp_path / 'metrics.jsonl')
  assert history[-1]['policy/heldout_loss'] < history[1]['policy/heldout_loss']
  changed = launch(
      tmp_path, *flags, '--config.model.lora.alpha=8.0', config=SFT
  )
  assert changed.returncode == 2
  assert 'model.lora.alpha' in changed.stderr


OFFLINE_FLAGS = {
    'dpo': (
        *SHORT['dpo'],
        '--config.warmstart.episodes=0',
        '--config.checkpoint.every=1',
    ),
    'agentevol': SHORT['agentevol'],
}


# AgentEvol's update is that of sft, tested above.
@pytest.mark.parametrize(
    'mode', ['dpo', pytest.param('agentevol', marks=pytest.mark.extra)]
)
def test_offline_modes_train_an_adapter_and_leave_its_base(
    base, tmp_path, mode
):
  config, run = small(f'babyai_{mode}'), tmp_path / 'run'
  flags = (
      *OFFLINE_FLAGS[mode],
      f'--config.model.name={base}',
      '--config.model.lora.rank=4',
      "--config.model.lora.targets=('q', 'down')",
      '--config.optim.lr=3e-3',
      '--config.eval.num_tasks=0',
      '--config.sampler.deterministic=True',
  )
  finish(run, *flags, config=config)
  before, after = (language_model.load_policy(str(d))[0] for d in (base, run))
  trained = {'q', 'down'}

  def compare(path, old, new):
    changed = trained.intersection(key.key for key in path)
    assert np.array_equal(old, new) == (not changed), path

  jax.tree_util.tree_map_with_path(compare, before.params, after.params)
  newest = [max((d / 'checkpoints').iterdir()) for d in (run, base)]
  assert 0 < size_of_params(newest[0]) < size_of_params(newest[1]) / 3

  # Whatever came after the checkpoint before the last is done again.
  again = tmp_path / 'again'
  shutil.copytree(run, again)
  shutil.rmtree(max((again / 'checkpoints').iterdir()))
  assert 'Continuing after step' in finish(again, *flags, config=config)
  repeated, _ = language_model.load_policy(str(again))
  tiny.assert_trees_equal(repeated.params, after.params)

  folder = tmp_path / 'export'
  said = finish(folder, config=f'configs/export.py:run={run}')
  assert 'read again and equal' in said.replace('\n', ' ')
  tiny.assert_trees_equal(hf.load(folder)[1], after.params)
