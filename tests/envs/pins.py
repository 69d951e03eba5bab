"""What the task ids of each environment mean, as digests.

A digest is the SHA-256 of JSON with sorted keys, made of the values that a task
consists of: texts, ids, numbers. Nothing in it depends on how the code that
makes the tasks is written (names of functions, classes and modules, the text of
a query), on the order of a set or of a folder, on a hash seed, or on the version
of SQLite.

Prints what `pins_test.py` holds to, of all environments:

    python -m tests.envs.pins > tests/envs/pins.json
"""

import dataclasses
import functools
import hashlib
import json
import pathlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from agentrl import envs
from agentrl.envs import spec as spec_lib

Digests = dict[str, str]


def of(values: Iterable[Any]) -> str:
  """The digest of JSON values, one after the other."""
  digest = hashlib.sha256()
  for value in values:
    text = json.dumps(value, sort_keys=True, allow_nan=False)
    digest.update(text.encode() + b'\n')
  return digest.hexdigest()


def splits(name: str, options: Iterable[Mapping[str, Any]]) -> Iterator[Any]:
  """The task lists of an environment, under each of these options."""
  spec = envs.get(name)
  for chosen in options:
    for split in spec_lib.SPLITS:
      yield [dict(chosen), split, list(spec.tasks(split, **chosen))]


def textcraft() -> Digests:
  """Goals, recipes and what is shown of them, also in other worlds."""
  from agentrl.envs.textcraft import env as env_lib, recipes

  def told(world: int) -> Iterator[Any]:
    book, names = recipes.of_world(world)
    yield [names[goal] for goal in recipes.load().goals]
    for found in book.recipes.values():
      for x in found:
        yield [x.item, x.count, x.inputs, x.tag]

  def shown() -> Iterator[Any]:
    env = env_lib.TextCraft(worlds=2)
    for task_id in [*range(0, 544, 7), 544, 1000, 999 * 544 + 3]:
      for seed in (0, 12345):
        env.reset(task_id, seed)
        yield [task_id, seed, env.query('goal'), env.query('commands')]

  options = [{}, {'worlds': 2}, {'max_depth': 2, 'min_family': 2}]
  return {
      'lists': of(splits('textcraft', options)),
      'goals and recipes': of(x for w in (0, 1, 2, 999) for x in told(w)),
      'commands shown': of(shown()),
  }


def babyai() -> Digests:
  """Missions and layouts of the first seeds of each split, on every level."""
  from agentrl.envs.babyai import levels, tasks

  def laid_out(task_id: int) -> Any:
    grid = levels.build(task_id)
    cells = [
        x and [x.type, x.color, bool(getattr(x, 'is_locked', False))]
        for x in grid.grid.grid
    ]
    where = [int(x) for x in grid.agent_pos], int(grid.agent_dir)
    return [task_id, grid.mission, cells, *where, int(grid.max_steps)]

  seeds = [found[0] for found in tasks.SEEDS.values()]
  ids = [seed * len(levels.NAMES) + i for seed in seeds for i in range(40)]
  return {
      'lists': of(splits('babyai', [{}, {'levels': ['GoToRedBall', 'Open']}])),
      'missions and layouts': of(map(laid_out, ids)),
  }


def sciworld() -> Digests:
  """Which task of the simulator, and which variation, an id is."""
  from agentrl.envs.sciworld import tasks

  named = (
      [x, tasks.task_of(x), tasks.variation_of(x)]
      for x in range(tasks.NUM_TASKS)
  )
  options = [{}, {'tasks': 'all'}, {'tasks': ['boil', 'grow-plant']}]
  return {
      'lists': of(splits('sciworld', options)),
      'tasks and variations': of(named),
  }


def searchqa() -> Digests:
  """Questions, answers and splits, and the passages that are searched."""
  from agentrl.envs.searchqa import dataset

  asked = ([x.split, x.text, x.answers] for x in dataset.load_questions())
  passages = ([x.title, x.text] for x in dataset.load_passages())
  options = [{}, {'max_hops': 1}, {'relations': ['capital']}]
  return {
      'lists': of(splits('searchqa', options)),
      'questions and answers': of(asked),
      'passages': of(passages),
  }


def miniwob() -> Digests:
  """Pages and seeds of all ids, the pages themselves, and what day it is."""
  from agentrl.envs.miniwob import site, tasks
  from agentrl.envs.web import tab

  named = (
      [x, tasks.page_of(x), tasks.seed_of(x), tasks.is_test(x)]
      for x in range(tasks.NUM_TASKS)
  )
  folder = site.folder()
  files = sorted(
      path.relative_to(folder).as_posix()
      for path in folder.rglob('*')
      if path.suffix in ('.html', '.js', '.json')
  )
  contents = (
      [name, hashlib.sha256((folder / name).read_bytes()).hexdigest()]
      for name in files
  )
  options = [{}, {'tasks': 'all'}, {'tasks': 'all', 'split_by': 'page'}]
  return {
      'clock': of([tab.EPOCH_S]),
      'files of the pages': of(contents),
      'lists': of(splits('miniwob', options)),
      'pages and seeds': of(named),
  }


def gymnasium() -> Digests:
  """Worlds and starts of the first tasks of each split, where we describe them."""
  from agentrl.envs.adapters import gymnasium as adapter

  def shown() -> Iterator[Any]:
    for name in sorted(adapter.TOLD):
      env = adapter.Gym(name, None, None, None)
      for task_id in (0, 1, 1000, 2000, 2001):
        yield [name, task_id, env.reset(task_id, 0)]

  return {'lists': of(splits('gymnasium', [{}])), 'starts': of(shown())}


def reasoning_gym() -> Digests:
  """Questions of the first tasks of each split of a few datasets."""
  from agentrl.envs.adapters import reasoning_gym as adapter

  def asked() -> Iterator[Any]:
    for name in ('chain_sum', 'gcd', 'word_sorting'):
      env = adapter.Questions(adapter.datasets(name=name, config=None), None, 1)
      for task_id in (0, 1, 100_000, 200_000):
        yield [name, task_id, env.reset(task_id, 0), env.expert_action()]

  return {'lists': of(splits('reasoning_gym', [{}])), 'asked': of(asked())}


def textarena() -> Digests:
  """First messages and the expert's games of a few tasks of each split."""
  from agentrl.envs.adapters import textarena as adapter

  def played() -> Iterator[Any]:
    for name in ('GuessTheNumber-v0', 'Sudoku-v0-easy', 'FrozenLake-v0-random'):
      env = adapter.Game(name, None)
      for task_id in (0, 1, 1000, 2000):
        yield [name, task_id, env.reset(task_id, 0)]
        if name.startswith('Guess'):
          while not (result := env.step(env.expert_action())).terminated:
            yield result.observation

  return {'lists': of(splits('textarena', [{}])), 'played': of(played())}


def of_lists(name: str) -> Digests:
  """The splits of tasks that a server elsewhere makes."""
  return {'lists': of(splits(name, [{}]))}


def harbor() -> Digests:
  """The splits of a folder of tasks."""
  path = pathlib.Path(__file__).parent / 'adapters/harbor_tasks'
  spec = envs.get('harbor')
  found = [list(spec.tasks(x, folder=str(path))) for x in spec_lib.SPLITS]
  return {'lists': of(found)}


def of_files(name: str) -> Digests:
  """The splits of a file of tasks without any."""
  path = pathlib.Path(__file__).parent / 'adapters/mcp_tasks.jsonl'
  spec = envs.get(name)
  found = [list(spec.tasks(x, tasks=str(path))) for x in spec_lib.SPLITS]
  return {'lists': of(found)}


def webarena(
    *,
    injected: bool = False,
    prepare: Callable[[sqlite3.Connection], None] | None = None,
) -> Digests:
  """Intents, goals and steps of all own tasks, and the records of each site.

  Args:
    injected: the tasks on pages that hold instructions of strangers.
    prepare: is given each copy of the records that tasks are made from.
  """
  from agentrl.sites import records, store as store_lib, table as tasks

  stores = records.build_stores(injected=injected)
  copies = {name: store.copy() for name, store in stores.items()}
  for copy in copies.values():
    if prepare:
      prepare(copy)
  made: dict[str, list[Any]] = {site: [] for site in tasks.SITES}
  for name, template in tasks.TEMPLATES.items():
    of_site = made[name.partition('/')[0]]
    for k, task_id in enumerate(tasks.ids_of(name)):
      task = plain(template.make(copies, k))
      of_site.append([task_id + tasks.INJECTED * injected, name, task])
  chosen = 'injected' if injected else 'own'
  options = [{'tasks': chosen}, {'tasks': chosen, 'split_by': 'value'}]
  return {
      'lists': of(splits('webarena', options)),
      **{
          f'records of {name}': of(_records(store.copy(), store_lib.tables))
          for name, store in stores.items()
      },
      **{
          f'{len(values)} tasks of {site}': of(values)
          for site, values in made.items()
      },
  }


def webarena_public() -> Digests:
  """Site, template, split and objective of the public tasks."""
  return {'tasks': of(_public())}


def _public() -> Iterator[Any]:
  from agentrl.envs.webarena.public import tasks

  for subset in tasks.SUBSETS:
    for task in tasks.load(subset).values():
      split = tasks.split_of(task.template_id)
      yield [subset, task.id, task.template_id, split, task.intent]


def _records(db: sqlite3.Connection, tables: Callable) -> Iterator[Any]:
  """Names of columns and all rows of a database, table by table."""
  db.row_factory = None
  for table in tables(db):
    rows = db.execute(f'SELECT rowid, * FROM "{table}" ORDER BY rowid')
    yield [table, [column[0] for column in rows.description]]
    yield from map(list, rows)


def plain(value: Any) -> Any:
  """JSON values of a task: dataclasses by name and fields that are set."""
  if dataclasses.is_dataclass(value):
    set_ = {
        field.name: plain(getattr(value, field.name))
        for field in dataclasses.fields(value)
        # A field that is added later changes no task that leaves it alone.
        if getattr(value, field.name) != field.default
    }
    return [_names()[type(value)], set_]
  if isinstance(value, Mapping):
    return {name: plain(found) for name, found in value.items()}
  if isinstance(value, list | tuple):
    return [plain(found) for found in value]
  assert value is None or isinstance(value, str | int | float), repr(value)
  return value


def _names() -> dict[type, str]:
  """Names of the parts of a task: a class may be renamed."""
  from agentrl.sites import answers, goals, task as template

  return {
      answers.Date: 'date',
      answers.Money: 'money',
      answers.Number: 'number',
      answers.Several: 'several',
      answers.Text: 'text',
      goals.Anything: 'anything',
      goals.Goal: 'goal',
      goals.New: 'new',
      goals.Row: 'row',
      template.Step: 'step',
      template.Task: 'task',
  }


DIGESTS: Mapping[str, Callable[[], Digests]] = {
    'textcraft': textcraft,
    'babyai': babyai,
    'sciworld': sciworld,
    'searchqa': searchqa,
    'gymnasium': gymnasium,
    'harbor': harbor,
    'mcp': functools.partial(of_files, 'mcp'),
    **{name: functools.partial(of_lists, name) for name in envs.AGENTGYM},
    'openenv': functools.partial(of_lists, 'openenv'),
    'verifiers': functools.partial(of_lists, 'verifiers'),
    'program': functools.partial(of_files, 'program'),
    'reasoning_gym': reasoning_gym,
    'textarena': textarena,
    'miniwob': miniwob,
    'webarena': webarena,
    'webarena, injected': functools.partial(webarena, injected=True),
    'webarena, public': webarena_public,
}

if __name__ == '__main__':
  found = {
      name: {
          'data_version': envs.get(name.partition(',')[0]).data_version,
          'digests': digests(),
      }
      for name, digests in DIGESTS.items()
  }
  print(json.dumps(found, indent=2))
