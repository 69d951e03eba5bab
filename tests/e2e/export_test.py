"""A checkpoint that was exported is a model like any other."""

import json

import pytest

from tests.e2e.running import SHORT, finish

pytestmark = pytest.mark.slow


# The modes that train; their checkpoints are read in one way.
@pytest.mark.parametrize(
    'config, short',
    [
        (
            'quickstart',
            ('--config.num_steps=1', '--config.warmstart.episodes=4'),
        ),
        *((f'babyai_{mode}', flags) for mode, flags in SHORT.items()),
    ],
)
def test_every_mode_that_trains_can_be_exported_and_evaluated(
    config, short, tmp_path
):
  flags = ('--config.eval.num_tasks=2', *short)
  run_dir, folder = tmp_path / 'run', tmp_path / 'run' / 'export'
  finish(run_dir, *flags, config=f'configs/{config}.py:tiny')
  said = finish(folder, config=f'configs/export.py:run={run_dir}')
  assert 'read again and equal' in said.replace('\n', ' ')
  card = (folder / 'README.md').read_text()
  assert '| after * |' in card
  # And it is a model by its folder's name, asked as it was in training.
  config = f'configs/evaluate.py:model={folder},n=2'
  said = finish(tmp_path / 'eval', config=config)
  assert 'babyai, all: success ' in said  # in a pipe
  summary = json.loads((tmp_path / 'eval' / 'summary.json').read_text())
  assert summary['eval']['test']['n'] == 2
