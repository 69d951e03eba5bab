"""Task ids mean the same for ever: pinned digests of all environments' tasks.

Where one differs, either undo what changed it, or let the change be known: count
up the environment's `data_version`, say in the table of agentrl/envs/README.md
what changed, and pin the new digests:

    python -m tests.envs.pins > tests/envs/pins.json
"""

import ast
import collections
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

from agentrl import envs
from tests.envs import packages, pins

ROOT = pathlib.Path(__file__).parents[2]
SITES = ROOT / 'agentrl/sites'
README = ROOT / 'agentrl/envs/README.md'
SLOW = {'webarena, injected': pytest.mark.slow}

# Environment -> data_version and the digests of its tasks.
PINS = json.loads(pathlib.Path(__file__).with_name('pins.json').read_text())


@pytest.mark.parametrize(
    'name',
    [
        packages.param(name, *filter(None, [SLOW.get(name)]))
        if name in envs.ENVS
        else pytest.param(name, marks=SLOW.get(name, ()))
        for name in PINS
    ],
)
def test_task_ids_mean_what_they_meant(name):
  env = name.partition(',')[0]
  version, pinned = PINS[name]['data_version'], PINS[name]['digests']
  found = pins.DIGESTS[name]()
  differ = [
      title for title in found | pinned if found.get(title) != pinned.get(title)
  ]
  now = envs.get(env).data_version
  assert not differ, (
      f'{env}: task ids have another meaning ({", ".join(differ)}). Undo it; or'
      f' bump its data_version (now {now}) in its EnvSpec, write'
      f' why into the table of {README.relative_to(ROOT)}, and run'
      ' python -m tests.envs.pins > tests/envs/pins.json'
  )
  assert now == version, (
      f'{env} has data_version {now}, and its digests are pinned for {version}:'
      ' run python -m tests.envs.pins > tests/envs/pins.json'
  )


def test_every_environment_is_pinned():
  assert {name.partition(',')[0] for name in PINS} == set(envs.ENVS)
  assert set(PINS) == set(pins.DIGESTS)


def test_every_data_version_is_explained():
  page = README.read_text()
  told = collections.defaultdict(set)
  for env, version in re.findall(r'^\| (\w+) \| (\d+) \| \S', page, re.M):
    told[env].add(int(version))
  for spec in envs.every():
    name = spec.name
    assert told[name] == set(range(1, spec.data_version + 1)), name


def test_a_change_of_one_task_changes_the_digest():
  from agentrl.sites import answers, goals, task as task_lib

  task = task_lib.Task(
      'Do it.', goals.Goal(answers.Text('yes')), (task_lib.stop('yes'),), ('a',)
  )
  change = lambda **fields: task_lib.Task(
      **{x: getattr(task, x) for x in task.__dataclass_fields__} | fields
  )
  others = [
      change(intent='Do it!'),
      change(goal=goals.Goal(answers.Number('yes'))),
      change(goal=goals.Goal(answers.Text('yes', ('aye',)))),
      change(goal=goals.Goal(answers.Text('yes'), url='b')),
      change(steps=()),
      change(start=('a', 'a')),
  ]
  digests = [pins.of([pins.plain(x)]) for x in (task, *others)]
  assert len(set(digests)) == len(digests)
  assert pins.of([pins.plain(change())]) == digests[0]


def draws():
  """Calls of the forge that draw by a key: file, line, key, its query."""
  place = {'row_shuffled': 1, 'kth_shuffled': 2, 'shuffled': 1}
  files = (SITES / 'forge/tasks').glob('*.py')
  for path in sorted(file for file in files if file.stem != 'paths'):
    for node in ast.walk(ast.parse(path.read_text())):
      name = getattr(getattr(node, 'func', None), 'attr', None)
      if isinstance(node, ast.Call) and name in place:
        key, *query = node.args[place[name] :][:2]
        query = [ast.unparse(x) for x in query]
        yield f'{path.name}:{node.lineno}', key, query


def test_draws_of_the_forge_have_names_for_keys():
  of_key = collections.defaultdict(set)
  for where, key, query in draws():
    if isinstance(key, ast.Name):  # of a label, which the records hold
      assert key.id == 'name', where
      continue
    assert isinstance(key, ast.Constant), f'{where}: {ast.unparse(key)}'
    assert re.fullmatch(r'[A-Za-z][A-Za-z -]{2,30}', key.value), where
    assert not re.match('SELECT', key.value), where
    of_key[key.value].update(query)
  assert len(of_key) > 25
  # One name, one draw: else two templates would follow each other.
  assert all(len(queries) <= 1 for queries in of_key.values()), of_key


@pytest.mark.slow
def test_tasks_do_not_hang_on_the_order_in_which_sqlite_finds_rows():
  found = pins.webarena(
      prepare=lambda db: db.execute('PRAGMA reverse_unordered_selects = 1')
  )
  assert found == PINS['webarena']['digests']


# Loads agentrl.envs with every query and every name of a function changed.
_REWRITTEN = r"""
import ast, importlib.abc, importlib.machinery, re, sys

class Rewrite(ast.NodeTransformer):
  def visit_Constant(self, node):
    if isinstance(node.value, str):
      node.value = re.sub(r'\b(SELECT|INSERT|CREATE) ', r'\1  ', node.value)
    return node

  def visit_Module(self, node):
    self.generic_visit(node)
    body = []
    for found in node.body:
      body.append(found)
      if isinstance(found, ast.FunctionDef):
        name, found.name = found.name, f'renamed_{found.name}'
        body += ast.parse(f'{name} = {found.name}').body
    node.body = body
    return ast.fix_missing_locations(node)

class Loader(importlib.machinery.SourceFileLoader):
  def get_code(self, fullname):
    path = self.get_filename(fullname)
    tree = ast.parse(self.get_data(path))
    return compile(Rewrite().visit(tree), path, 'exec')

class Finder(importlib.abc.MetaPathFinder):
  def find_spec(self, name, path, target=None):
    spec = importlib.machinery.PathFinder.find_spec(name, path, target)
    if name.startswith(('agentrl.envs.', 'agentrl.sites.')) and spec and spec.origin:
      spec.loader = Loader(name, spec.origin)
    return spec

sys.meta_path.insert(0, Finder())
import json
from tests.envs import packages, pins
from agentrl.sites import picking
assert picking.mixed.__name__ == 'renamed_mixed'
print(json.dumps({name: pins.DIGESTS[name]() for name in sys.argv[1:]}))
"""


@pytest.mark.slow
def test_a_rewritten_source_means_the_same_tasks():
  names = ['textcraft', 'babyai', 'sciworld', 'searchqa', 'miniwob', 'webarena']
  done = subprocess.run(
      [sys.executable, '-c', _REWRITTEN, *names],
      cwd=ROOT,
      env=os.environ | {'PYTHONHASHSEED': '12345', 'PYTHONPATH': str(ROOT)},
      capture_output=True,
      text=True,
      timeout=600,
  )
  assert done.returncode == 0, done.stderr[-2000:]
  assert json.loads(done.stdout) == {
      name: PINS[name]['digests'] for name in names
  }
