"""Runs that a page keeps, laid out as workdirs that the viewer and mode study read.

They have the config, the summary, the metrics and the outcome of each evaluated
episode; texts, tokens and checkpoints were not kept.
"""

import json
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentrl.data import episodes as episodes_lib
from agentrl.errors import ConfigError
from agentrl.evaluation.workdirs import run_facts
from agentrl.rollout import seeds
from agentrl.runtime import summary as summary_lib, workdir as workdir_lib
from agentrl.types import ENV_ERROR, TERMINATED, Episode, Turn
from experiments.sweeps import results

_NOT_KEPT = '(not kept)'


def write(page: pathlib.Path, out: pathlib.Path) -> list[pathlib.Path]:
  """Lays the runs of a page out below a folder; returns their workdirs.

  Raises:
    ConfigError: the page keeps no run, or the folder has one already.
  """
  paths = sorted((page / 'runs').glob('*.json'))
  if not paths:
    raise ConfigError(f'{page} keeps no run.')
  return [_write(json.loads(x.read_text()), out / x.stem) for x in paths]


def _write(record: Mapping[str, Any], folder: pathlib.Path) -> pathlib.Path:
  if folder.exists():
    raise ConfigError(f'{folder} is there already: name another folder.')
  folder.mkdir(parents=True)
  config, summary = record['config'], record['summary']
  (folder / workdir_lib.CONFIG).write_text(json.dumps(config))
  summary_lib.write(folder, summary)
  lines = [dict(line) for line in record['metrics']]
  if lines:  # pages did not always keep it
    lines[0] = _before(summary) | lines[0]
  text = ''.join(json.dumps(line) + '\n' for line in lines)
  (folder / run_facts.METRICS).write_text(text)
  for part, step in (('before', 0), ('after', summary['steps'])):
    for member, rows in record[part].items():
      stem = f'{step:06d}-{member}' if member else f'{step:06d}'
      if rows:
        episodes_lib.write(
            folder / 'episodes' / 'eval' / f'{stem}.jsonl',
            list(_episodes(config, member, record['columns'], rows)),
        )
  return folder


def _before(summary: Mapping[str, Any]) -> dict[str, float]:
  """The evaluation before training, as the first line of metrics has it."""
  found = summary['eval'].get('before') or {}
  members = {'': found} if 'mean' in found else found
  return {
      f'eval_before{"/" * bool(member)}{member}/success{end}': rate[key]
      for member, rate in members.items()
      for end, key in (('', 'mean'), ('_low', 'low'), ('_high', 'high'))
  }


def _episodes(
    config: Mapping[str, Any],
    member: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
) -> Iterator[Episode]:
  own = config['mixture'][member] if member else config
  settings = {**config['eval'], **(own.get('eval') or {})}
  for row in rows:
    values = dict(zip(columns, row, strict=True))
    task, sample, success = (
        values[name] for name in ('task', 'sample', results.SUCCESS)
    )
    failed = success is None
    yield Episode(
        episode_id=f'eval-{task}-{sample}',
        env=own['env']['name'],
        task_id=task,
        split='test',
        seed=seeds.derive_seed(settings['seed'], task, sample),
        policy_version=0,
        horizon=settings['horizon'],
        stop_reason=ENV_ERROR if failed else TERMINATED,
        success=bool(success),
        sample=sample,
        prompt=(),
        turns=() if failed else tuple(_turns(values)),
        tokens=(),
        completion_mask=(),
        sampler_logprobs=(),
    )


def _turns(values: Mapping[str, Any]) -> Iterator[Turn]:
  """As many as there were; the last one has the whole return."""
  count = max(int(values[results.TURNS] or 1), 1)
  for number in range(count):
    yield Turn(
        completion=_NOT_KEPT,
        action=_NOT_KEPT,
        parse_error=None,
        observation=_NOT_KEPT,
        reward=float(values[results.RETURN]) if number == count - 1 else 0.0,
        finish_reason='stop',
        prompt_tokens=None,
        cached_tokens=None,
        completion_tokens=None,
        weight_version='0',
        sampler_s=0.0,
        env_s=0.0,
    )
