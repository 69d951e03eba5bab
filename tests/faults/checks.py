"""What is wrong with a run that had faults, beside one that was left alone."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import time
from collections.abc import Iterator, Sequence

from experiments.benchmarks import soak_kills, soak_run
from tests.faults import runs
from tests.faults.scenarios import STEPS, Scenario

EPISODES = 8  # of a step
# A sampled token's log-probability, by the sampler and by the trainer.
_AGREE = 1e-4
_GONE_S = 20.0  # for what is left to end by itself
# What a run may leave that another one does not: what it had to do again, the
# logs of servers that were started again.
_MORE = re.compile(
    r'checkpoints/|tensorboard/|servers/|.*\.discarded|.*\.jsonl\.discarded'
)
_PARTS = re.compile(r'.*(\.part|\.new|orbax-checkpoint-tmp.*|\.tmp)$')
_METRICS = 'metrics.jsonl'
# Fields of an episode that say when it was played.
_TIMED = ('turns', 'policy_version')


def problems(
    whole: pathlib.Path,
    run: pathlib.Path,
    scenario: Scenario,
    damaged: Sequence[str],
    said: bytes,
) -> list[str]:
  """How the records of a run differ from those of one that was left alone.

  Args:
    whole: workdir of that one.
    run: workdir of the other.
    scenario: of both.
    damaged: files, from the workdir, that faults have changed, and that are not
      compared; of metrics.jsonl lines may be missing, if the run has said so.
    said: what the run has written.
  """
  found = []
  try:
    if scenario.exact:
      if _METRICS in damaged:
        found += _rest_of_metrics(whole, run, said)
      found += [
          x
          for x in soak_kills.differences(whole, run, steps=STEPS)
          if _METRICS not in damaged or x.startswith('episodes/')
      ]
      found += soak_kills.parameters_differ(whole, run)
      found += _evaluations(whole, run)
    else:
      found += _played(whole, run, scenario)
    found += _agreement(run, scenario)
    found += _files(whole, run)
  except Exception as error:  # a record that cannot be read is a finding too
    found.append(f'the record cannot be compared: {error!r}')
  hidden = lambda x: any(name in x for name in damaged)
  return [x for x in found if not hidden(x)][:20]


def _lines(path):
  return soak_run.lines(path)


def _rest_of_metrics(whole, run, said) -> Iterator[str]:
  """How the lines differ that are left of metrics.jsonl, one a step."""
  one, other = (
      {line['step']: line for line in _lines(x / _METRICS)}
      for x in (whole, run)
  )
  if one.keys() - other.keys() and b'has no line of' not in said:
    yield f'lines of metrics are missing, and nobody is told: {[*other]}'
  changed = [
      f'step {step}: {name} is {one[step].get(name)} and {line.get(name)}'
      for step, line in other.items()
      for name in line.keys() | one[step].keys()
      if not name.startswith(soak_kills.OWN)
      and not name.endswith(soak_kills.TIMED)
      and line.get(name) != one[step].get(name)
  ]
  if len(changed) > 1:  # one is the bit that was flipped
    yield from changed


def _evaluations(whole, run) -> Iterator[str]:
  both = [runs.summary_of(x) for x in (whole, run)]
  for name in ('eval', 'chance', 'steps', 'sampled_tokens'):
    a, b = (x.get(name) for x in both)
    if a != b:
      yield f'{name} of summary.json is {a} and {b}'


def _played(whole, run, scenario) -> Iterator[str]:
  """Which episodes were trained on, once each, and what they are."""
  both = [_episodes(x) for x in (whole, run)]
  names = [sorted(e['episode_id'] for e in x) for x in both]
  if names[0] != names[1]:
    twice = {x for x in names[1] if names[1].count(x) > 1}
    yield (
        f'trained on other episodes: without {set(names[0]) - set(names[1])},'
        f' besides {set(names[1]) - set(names[0])}, twice {twice}'
    )
    return
  if not scenario.loose:
    one, other = ({e['episode_id']: e for e in x} for x in both)
    for name, episode in one.items():
      for field in episode.keys() - set(_TIMED):
        if episode[field] != other[name][field]:
          yield f'{field} of episode {name} differs'
  steps = [line['step'] for line in _lines(run / 'metrics.jsonl')]
  if steps != list(range(STEPS)):
    yield f'metrics.jsonl has steps {steps}'


def _episodes(workdir):
  return [
      line
      for path in sorted((workdir / 'episodes' / 'train').glob('*.jsonl'))
      for line in _lines(path)
  ]


def _agreement(run, scenario) -> Iterator[str]:
  for line in _lines(run / 'metrics.jsonl'):
    off = line['sampler/logprob_abs_diff_mean']
    if not off < _AGREE:
      yield f'step {line["step"]}: log-probabilities are off by {off}'
    old = line.get('rollout/staleness_max', 0)
    if old > scenario.staleness:
      yield f'step {line["step"]}: groups are {old:g} pushes old'
    if line['sampler/stale_turns'] and not scenario.staleness:
      yield f'step {line["step"]}: turns were sampled by another policy'


def _names(workdir) -> set[str]:
  return {
      str(path.relative_to(workdir))
      for path in workdir.rglob('*')
      if path.is_file()
  }


def _files(whole, run) -> Iterator[str]:
  here, there = _names(run), _names(whole)
  for name in sorted(here):
    if _PARTS.match(name) or any(map(_PARTS.match, name.split('/'))):
      yield f'{name} is left in the workdir'
    elif name not in there and not _MORE.match(name):
      yield f'{name} is left in the workdir'
  for name in sorted(there - here):
    if not _MORE.match(name):
      yield f'{name} is missing from the workdir'
  kept = lambda x: sorted(p.name for p in (x / 'checkpoints').iterdir())
  if kept(whole) != kept(run):
    yield f'checkpoints are {kept(whole)} and {kept(run)}'


def remains(known: set[int]) -> list[str]:
  """Processes and files that a run has left beside its workdir."""
  deadline = time.monotonic() + _GONE_S
  while True:
    found = [f'process {x}' for x in runs.others(known)]
    if not found or time.monotonic() > deadline:
      break
    time.sleep(0.2)
  # The next trial is to find its own.
  return found + sweep(known)


def sweep(known: set[int]) -> list[str]:
  """Ends processes and removes files beside workdirs; words on the files."""
  while found := runs.others(known):
    for words in found:
      with contextlib.suppress(ProcessLookupError):
        os.kill(int(words.split()[0]), signal.SIGKILL)
    time.sleep(0.05)
  left = _left()
  for path in left:
    shutil.rmtree(path) if path.is_dir() else path.unlink()
  return [f'file {path}' for path in left]


def _left() -> list[pathlib.Path]:
  folders = (pathlib.Path('/tmp'), pathlib.Path('/dev/shm'))
  return [x for f in folders for x in f.iterdir() if x.name not in KEPT]


# In /tmp of the harness: folders that it keeps, see `__main__`.
KEPT: set[str] = set()


def secrets(folder: pathlib.Path, said: bytes) -> list[str]:
  """Where a trial shows a secret of its environment: files, what it said."""
  words = [value.encode() for value in runs.SECRETS.values()]
  shows = lambda data: any(word in data for word in words)
  found = [
      f'{path.name} has a secret'
      for path in folder.rglob('*')
      if path.is_file() and shows(path.read_bytes())
  ]
  return found + ['the run said a secret'] * shows(said)
