"""The 812 public tasks, read from the files of the webarena-verified wheel.

`raw` has them as WebArena published them (arXiv:2307.13854), `verified` with
intents and checks revised by webarena-verified, `hard` 258 of the latter.
"""

import dataclasses
import functools
import importlib.util
import json
import pathlib
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agentrl import shipped
from agentrl.envs.webarena.public import form, sites
from agentrl.envs.webarena.public.form import PublicTask
from agentrl.errors import ConfigError, EnvError

SUBSETS = ('raw', 'verified', 'hard')
_FILES = {
    'raw': 'test.raw.json',
    'verified': 'webarena-verified.json',
    'hard': 'webarena-verified.json',
}
_HARD = 'subsets/webarena-verified-hard.json'
# Tasks that nobody can solve: webarena-verified's own evaluators accept no
# answer and requests that a browser can make.
_TWICE = 'two requests to one address must each be the last'
_SINGLE = 'its evaluator refuses the list of one value that it expects'
_LITERAL = 'a placeholder is compared with the URL of the site'
LEFT_OUT = {
    319: 'the expected answer lacks the data that it is compared with',
    423: 'a GET request must have a body',
    429: 'two pages must each be the last',
    **dict.fromkeys((562, 563, 564, 565, 566), _LITERAL),
    **dict.fromkeys((567, 568, 569, 570, 742, 743, 745, 746), _TWICE),
    **dict.fromkeys((699, 700, 811), _SINGLE),
}
_SPLITS = {'train': range(6), 'dev': range(6, 8), 'test': range(8, 10)}


@dataclasses.dataclass(frozen=True)
class Chosen:
  """The tasks that can be played.

  Attributes:
    ids: of them, in order.
    skipped: reason -> number of tasks that cannot be.
  """

  ids: tuple[int, ...]
  skipped: Mapping[str, int]


def folder() -> pathlib.Path:
  """The wheel's task files.

  Raises:
    EnvError: the wheel is missing.
  """
  # Its import would want pydantic and sixteen more, all pinned.
  spec = importlib.util.find_spec('webarena_verified')
  places = spec.submodule_search_locations if spec else None
  for place in places or ():
    path = pathlib.Path(place) / 'assets' / 'dataset'
    if path.is_dir():
      return path
  raise EnvError(
      "WebArena's public tasks need the files of the webarena-verified wheel:"
      f' pip install --no-deps -r {shipped.requirements("data")}'
  )


@functools.cache
def load(subset: str, task_file: str = '') -> Mapping[int, PublicTask]:
  """The tasks of a subset by their ids, in order.

  Args:
    subset: a name in SUBSETS.
    task_file: in place of the wheel's; of the same form.

  Raises:
    ConfigError: the subset is unknown, or the file has another form.
    EnvError: the wheel is missing, or a file cannot be read.
  """
  if subset not in SUBSETS:
    raise ConfigError(
        f'Unknown subset {subset!r}; known: {", ".join(SUBSETS)}.'
    )
  path = pathlib.Path(task_file) if task_file else folder() / _FILES[subset]
  listed = _json(path)
  if not isinstance(listed, list) or not listed:
    raise ConfigError(f'{path} is no list of WebArena tasks.')
  tasks = {}
  for record in listed:
    task = form.read(record, raw=subset == 'raw', path=path)
    if task.id in tasks:
      raise ConfigError(f'{path} has task {task.id} twice.')
    tasks[task.id] = task
  if subset == 'hard' and not task_file:
    hard = _json(folder() / _HARD)['task_ids']
    tasks = {task_id: tasks[task_id] for task_id in hard}
  return dict(sorted(tasks.items()))


def choose(
    tasks: Iterable[PublicTask],
    urls: Mapping[str, str],
    *,
    judge: bool = False,
) -> Chosen:
  """The tasks that can be played on some sites.

  Args:
    tasks: as `load` gives them.
    urls: site -> its URL, see `sites.from_environment`.
    judge: whether answers can be compared by meaning.
  """
  task_ids: list[int] = []
  skipped: Counter[str] = Counter()
  for task in tasks:
    unset = [site for site in task.sites if site not in urls]
    if not task.raw and task.id in LEFT_OUT:
      skipped[f'left out: {LEFT_OUT[task.id]}'] += 1
    elif unset:
      names = ', '.join(sites.VARIABLES[site] for site in unset)
      skipped[f'{names} not set'] += 1
    elif task.needs_judge and not judge:
      skipped['fuzzy_match needs a judge'] += 1
    else:
      task_ids.append(task.id)
  return Chosen(tuple(task_ids), dict(skipped))


def ids(
    subset: str,
    urls: Mapping[str, str],
    *,
    judge: bool = False,
    task_file: str = '',
) -> Chosen:
  """The ids of a subset's tasks that can be played; see `load` and `choose`."""
  return choose(load(subset, task_file).values(), urls, judge=judge)


def split_of(template_id: int) -> str:
  """The split of a template's tasks: 'train', 'dev' or 'test'.

  By a hash of the id, so that it is the same in every subset and file.
  """
  part = zlib.crc32(str(template_id).encode()) % 10
  return next(name for name, parts in _SPLITS.items() if part in parts)


def start_urls(task: PublicTask, urls: Mapping[str, str]) -> Sequence[str]:
  """The addresses at which a task begins, each in a tab of its own."""
  return [sites.fill(address, urls) for address in task.addresses]


def _json(path: pathlib.Path) -> Any:
  try:
    return json.loads(path.read_text(encoding='utf-8'))
  except OSError as error:
    raise EnvError(f'{path} cannot be read: {error.strerror}.') from error
  except ValueError as error:
    raise ConfigError(f'{path} is no JSON file: {error}.') from error
