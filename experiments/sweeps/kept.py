r"""Keeps finished runs as small files beside a page, and draws what they reached.

    python -m experiments.sweeps.kept --page=experiments/2026-12-pretrained \
        --add=babyai=runs/babyai-0 --add=babyai=runs/babyai-1
    python -m experiments.sweeps.kept --page=experiments/2026-12-pretrained

A run is PAGE/runs/ARM-SEED.json: its config, its summary, a few metrics of each
step, and what each episode of its evaluations before and after earned. So a page
can be drawn anew, and its numbers be computed by others, without the workdirs.
`PAGE/table.md` and `PAGE/figure.svg` are those of a sweep, an arm a recipe.
"""

import json
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

from absl import app, flags

from agentrl import metrics as metrics_lib
from agentrl.errors import AgentrlError, ConfigError
from agentrl.evaluation.compare.comparison import Values
from agentrl.runtime import workdir as workdir_lib
from experiments.sweeps import folder, results
from experiments.sweeps.cells import SEED, Cell
from experiments.sweeps.results import Run

_PAGE = flags.DEFINE_string('page', None, 'Folder of the page.', required=True)
_ADD = flags.DEFINE_multi_string(
    'add', [], 'ARM=WORKDIR of a finished run of a recipe.'
)

_METRICS = (
    'step',
    'rollout/episodes',
    'rollout/invalid',
    'rollout/success',
    'rollout/return_mean',
    'rollout/return_std',
    'rollout/horizon',
    'rollout/turns_mean',
    'rollout/completion_tokens',
    'rollout/task_stage',
    'policy/entropy',
    'policy/approx_kl',
    'train/tokens',
    'train/updates',
    'train/learnt_share',
    'distill/reverse_kl',
    'time/step_s',
    'time/collect_s',
    'time/update_s',
    'time/memory_gib',
)
_DIGITS = 4  # of a metric that is no count


def add(page: pathlib.Path, arm: str, workdir: pathlib.Path) -> pathlib.Path:
  """Writes the file of a finished run; returns its path.

  Raises:
    ConfigError: the run is not finished.
    CheckpointError: it is none.
  """
  config = workdir_lib.read_record(workdir / workdir_lib.CONFIG)
  if not folder.finished(workdir, config):
    raise ConfigError(f'{workdir} is not finished: the same command goes on.')
  record = {
      'arm': arm,
      'config': config,
      'summary': json.loads((workdir / 'summary.json').read_text()),
      'metrics': [
          {name: _rounded(line[name]) for name in _METRICS if name in line}
          for line in metrics_lib.read(workdir / 'metrics.jsonl')
      ],
      'before': _rows(results.played(workdir, last=False)),
      'after': _rows(results.played(workdir, last=True)),
  }
  path = page / 'runs' / f'{arm}-{config["seed"]}.json'
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text(json.dumps(record, indent=1) + '\n')
  return path


def read(page: pathlib.Path) -> list[Run]:
  """The runs that a page keeps, by arm and seed."""
  return [
      _run(json.loads(path.read_text()))
      for path in sorted((page / 'runs').glob('*.json'))
  ]


def _run(record: dict[str, Any]) -> Run:
  arm, config = record['arm'], record['config']
  pairs = ((':recipe', arm), (SEED, str(config['seed'])))
  return Run(
      cell=Cell('', pairs),
      config=config,
      summary=record['summary'],
      metrics=record['metrics'],
      played=_values(record['after']),
      played_before=_values(record['before']),
  )


def _rounded(value: float) -> float:
  return value if value == int(value) else round(value, _DIGITS)


def _rows(played: dict[str, Values]) -> list[list[Any]]:
  """[task, sample, success, return] of each episode; null: it failed."""
  if not played:
    return []
  success, returns = played[results.SUCCESS], played[results.RETURN]
  return [
      [task, sample, value, returns[task, sample]]
      for (task, sample), value in success.items()
  ]


def _values(rows: Sequence[Sequence[Any]]) -> dict[str, Values]:
  if not rows:
    return {}
  return {
      results.SUCCESS: {(task, k): value for task, k, value, _ in rows},
      results.RETURN: {(task, k): value for task, k, _, value in rows},
  }


def main(argv):
  if len(argv) > 1:
    raise app.UsageError(f'Unexpected arguments {argv[1:]}.')
  page = pathlib.Path(_PAGE.value)
  try:
    for text in _ADD.value:
      arm, equals, workdir = text.partition('=')
      if not equals:
        raise ConfigError(f'--add is ARM=WORKDIR, got {text!r}.')
      print(add(page, arm, pathlib.Path(workdir)))
  except AgentrlError as error:
    sys.exit(f'{type(error).__name__}: {error}')
  # Imported late: matplotlib takes a second, and a refusal should not.
  from experiments.sweeps import figure, tables

  runs = read(page)
  text = tables.of_runs(runs, compared=False)
  (page / 'table.md').write_text(text)
  print(text)
  if runs:
    figure.draw(runs, page / 'figure.svg')


if __name__ == '__main__':
  app.run(main)
