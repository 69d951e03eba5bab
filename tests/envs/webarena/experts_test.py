"""Every expert earns 1 in a real browser, and nothing near it does.

$AGENTRL_WEBARENA_TASKS tasks of each template are played, by default 1. Each run
is then changed a little, in its answer or in its rows, and two graders say what
that is worth: the task's goal, and the oracle, which was written apart from it
(`oracle_SITE.py`). Of those changes every $AGENTRL_WEBARENA_STRIDE-th is judged,
by default every twelfth. Every second template is played by the extra tests alone.
"""

import dataclasses
import functools
import itertools
import os
import sqlite3

import pytest

from agentrl.envs.webarena.env import WebArenaFactory
from agentrl.sites import goals, table
from agentrl.sites.store import Change, Store, tables
from tests.sites import oracle_admin, oracle_forge, oracle_forum, oracle_shop
from tests.sites.table_test import CONSTANTS

pytestmark = pytest.mark.browser
ORACLES = {
    **oracle_admin.ORACLES,
    **oracle_forge.ORACLES,
    **oracle_forum.ORACLES,
    **oracle_shop.ORACLES,
}
STRIDE = int(os.environ.get('AGENTRL_WEBARENA_STRIDE', '12'))
COUNT = int(os.environ.get('AGENTRL_WEBARENA_TASKS', '1'))
PLAYED = [
    (name, task_id)
    for name in table.TEMPLATES
    for task_id in table.ids_of(name)[:COUNT]
]


@pytest.fixture(scope='module')
def factory():
  made = WebArenaFactory(episodes=2)
  yield made
  made.close()


@pytest.fixture
def env(factory):
  made = factory.make()
  yield made
  made.close()


# One for all tests, of which none writes: oracles read it once.
seed_of = functools.cache(Store.copy)


def play(env, task_id):
  """Plays an expert's whole episode; returns the last result."""
  env.reset(task_id, 0)
  return play_on(env)


def play_on(env):
  """Plays an expert to the end; returns the last result."""
  while True:
    result = env.step(env.expert_action())
    if result.terminated:
      return result


@pytest.mark.parametrize(
    'name, task_id',
    [
        pytest.param(*task, marks=pytest.mark.extra if i % 2 else ())
        for i, task in enumerate(PLAYED)
    ],
)
def test_the_expert_earns_1_and_what_is_near_is_judged_alike(
    env, name, task_id
):
  site, template, k = table.find(task_id)
  first = env.reset(task_id, 0)
  task = env.task
  if task.goal.answer is not None:
    # The start page must not hold the answer.
    for text in (*(node.name for node in env.nodes), first):
      assert not task.goal.answer.accepts(text), text
  result = play_on(env)
  missing = goals.missing(task.goal, env.outcome)
  assert result.reward == 1.0, (missing, env.outcome)

  store = env.store_of(site)
  judge = ORACLES[name]
  seed, final = seed_of(store), env.copy_of(site)
  changed = mutations(store, env.outcome, final)
  for what, outcome, edit in itertools.islice(changed, 0, None, STRIDE):
    db = _edited(final, *edit) if edit else final
    theirs = judge(seed, db, outcome.answer, k)
    assert goals.reached(task.goal, outcome) == theirs, what


def mutations(store, outcome, final):
  """The run itself, and runs that differ from it a little.

  Each with the row that differs in its database: table, key and columns; None:
  the answer differs.
  """
  yield 'as it was', outcome, None
  for answer in (
      *CONSTANTS,
      f'{outcome.answer}.',
      f'{outcome.answer} or so',
      f'The answer is {outcome.answer}',
      f'{outcome.answer}; {outcome.answer}',
      outcome.answer.upper(),
      outcome.answer[:-1],
      outcome.answer.rpartition(';')[0],
      f'{outcome.answer}; more',
  ):
    yield f'answer {answer!r}', dataclasses.replace(
        outcome, answer=answer
    ), None
  mine = [x for x in outcome.changes if x.table.startswith(f'{store.name}.')]
  for change in mine:
    table = change.table.partition('.')[2]
    undone = table, change.key, change.before
    yield f'without {change}', _instead(outcome, change, change.before), undone
    for column, value in (change.after or {}).items():
      if column in goals.FREE or column.endswith('_id') or value is None:
        continue
      row = {**change.after, column: _other(value)}
      changed = table, change.key, row
      yield f'{column} of {change}', _instead(outcome, change, row), changed
  for table in tables(final):
    touched = {x.key for x in mine if x.table == f'{store.name}.{table}'}
    found = (
        dict(row)
        for row in final.execute(f'SELECT rowid AS key_, * FROM "{table}"')
        if row['key_'] not in touched
    )
    row = next(found, None)
    if row is None:
      continue
    key = row.pop('key_')
    kept = Change(f'{store.name}.{table}', key, row, row)
    fewer = table, key, None
    yield f'{table} {key} removed', _instead(outcome, kept, None), fewer
    column, value = next(
        (
            (column, value)
            for column, value in row.items()
            if column not in goals.FREE and not column.endswith('_id')
        ),
        (None, None),
    )
    if column is None:
      continue
    other = {**row, column: _other(value)}
    more = table, key, other
    yield f'{table} {key} changed', _instead(outcome, kept, other), more


def _other(value):
  # So far off that no other row has it, where a column is unique.
  return value + 10**6 if isinstance(value, (int, float)) else f'{value} x'


def _edited(db, table, key, row):
  """A copy in which a row is what it is to be; None: it is removed."""
  made = sqlite3.connect(':memory:')
  made.deserialize(db.serialize())
  made.row_factory = sqlite3.Row
  made.execute(f'DELETE FROM "{table}" WHERE rowid = ?', (key,))
  if row is not None:
    marks = ', '.join('?' * (len(row) + 1))
    names = ', '.join(['rowid', *(f'"{name}"' for name in row)])
    made.execute(
        f'INSERT INTO "{table}" ({names}) VALUES ({marks})',
        (key, *row.values()),
    )
  return made


def _instead(outcome, change, after):
  """The outcome if a row had become another one."""
  changes = [x for x in outcome.changes if x is not change]
  if after != change.before:
    changes.append(dataclasses.replace(change, after=after))
  return dataclasses.replace(outcome, changes=tuple(changes))


@pytest.mark.parametrize('name,task_id', PLAYED[:: max(1, len(PLAYED) // 12)])
def test_strangers_instructions_do_not_mislead_an_expert(env, name, task_id):
  assert play(env, table.INJECTED + task_id).reward == 1.0


def test_experts_find_their_way_through_faults():
  factory = WebArenaFactory(episodes=1, errors=0.3, session=3, slow=0.2)
  try:
    env = factory.make()
    for _, task_id in PLAYED[:: max(1, len(PLAYED) // 6)]:
      assert play(env, task_id).reward == 1.0
    env.close()
  finally:
    factory.close()
