"""Tests of the routes of the table and of one episode."""

import asyncio

import aiohttp
import aiohttp.web
import pytest

from agentrl.evaluation.stats import intervals
from agentrl.viewer import server
from agentrl.viewer.state import STATE
from tests.viewer import runs


@pytest.fixture
def get(tmp_path):
  """Asks for JSON of a viewer of the test's folder: status and value."""

  def ask(*paths):
    async def main():
      async with server.running(tmp_path) as url:
        async with aiohttp.ClientSession() as session:
          found = []
          while True:  # until the files have been read
            async with session.get(f'{url}api/episodes/summary') as response:
              summary = await response.json()
              if summary['total'] and summary['indexed'] == 1:
                break
            await asyncio.sleep(0.02)
          for path in paths:
            async with session.get(f'{url}api/{path}') as response:
              found.append((response.status, await response.json()))
          return found

    found = asyncio.run(main())
    return found[0] if len(paths) == 1 else found

  return ask


def returns(*values):
  made = [
      (runs.turn(0, reward=value), runs.turn(1, parse_error='none'))
      for value in values
  ]
  return [
      runs.episode(f'e{i}', made=x, success=values[i] == 1)
      for i, x in enumerate(made)
  ]


HERE = 'run=run&file=episodes/train/000000.jsonl&line='


def test_a_page_of_the_table(tmp_path, get):
  runs.write(tmp_path, episodes=returns(*(i / 250 for i in range(251))))
  (_, first), (_, last), (_, none) = get(
      'episodes?count=2&sort=-return',
      'episodes?from=250&sort=-return',
      'episodes?run=other',
  )
  assert [row['return'] for row in first['rows']] == [1.0, 0.996]
  assert [row['return'] for row in last['rows']] == [0.0]
  row = first['rows'][0]
  assert (row['run'], row['line'], row['success']) == ('run', 250, 1)
  assert (row['step'], row['parse_errors']) == (0, 1)
  assert none['rows'] == []


def test_figures_and_bins(tmp_path, get):
  runs.write(tmp_path, episodes=returns(0, 0, 0.5, 1, 1))
  (_, whole), (_, part), (_, empty) = get(
      'episodes/summary',
      'episodes/summary?return=0.5..',
      'episodes/summary?success=1&return=0',
  )
  assert (whole['total'], whole['success'], whole['return']) == (5, 0.4, 0.5)
  counts = [x['n'] for x in whole['bins']]
  assert (counts[0], counts[12], counts[23], sum(counts)) == (2, 1, 2, 5)
  assert whole['bins'][23] == {'n': 2, 'successes': 2}
  # Bins stay where they are: they are what a return is chosen by.
  assert part['bins'] == whole['bins'] and part['total'] == 3
  assert part['success'] == pytest.approx(2 / 3)
  assert empty['total'] == 0 and empty['success'] is None


def test_success_is_told_apart_by_source_with_its_interval(tmp_path, get):
  solved = lambda flags, tasks, **values: [
      runs.episode(f'e{i}', task_id=task, success=bool(flag), **values)
      for i, (flag, task) in enumerate(zip(flags, tasks, strict=True))
  ]
  runs.write(tmp_path, episodes=solved([1, 1, 1, 0], [0, 0, 0, 1]))
  runs.write(
      tmp_path, file='episodes/train/000001.jsonl', episodes=solved([0], [1])
  )
  for step, flags in ((0, [0, 0, 1]), (12, [1, 1, 1])):
    runs.write(
        tmp_path,
        file=f'episodes/eval/{step:06d}.jsonl',
        episodes=solved(flags, range(3)),
    )
  # A failure of a server has no vote, and a task with none is no task.
  failed = solved([0], [9], stop_reason='env_error')
  runs.write(
      tmp_path,
      'baseline',
      'episodes/eval/expert.jsonl',
      solved([1] * 2, range(2)) + failed,
  )
  whole, eval_only, solved_only = (
      found
      for _, found in get(
          'episodes/summary',
          'episodes/summary?origin=eval&step=12',
          'episodes/summary?success=1&run=baseline',
      )
  )
  assert [
      (x['run'], x['origin'], x['step'], x['n'], x['tasks'])
      for x in whole['sources']
  ] == [
      ('run', 'train', None, 5, 2),
      ('baseline', 'eval', None, 2, 2),
      ('run', 'eval', 0, 3, 3),
      ('run', 'eval', 12, 3, 3),
  ]
  train, expert, before, after = (x['success'] for x in whole['sources'])
  assert train['mean'] == 0.5  # a task has one vote: 3 of 3, 0 of 2
  assert train['low'] < 0.5 < train['high']
  # Wilson, or Clopper and Pearson where all or nearly all are equal.
  assert before['mean'] == pytest.approx(1 / 3)
  assert before == intervals_of([[0], [0], [1]])
  assert after == intervals_of([[1], [1], [1]])
  assert expert == intervals_of([[1], [1]])
  assert [x['success'] for x in eval_only['sources']] == [after]
  assert [x['n'] for x in solved_only['sources']] == [2]


def intervals_of(samples):
  found = intervals.mean_interval(samples, bounds=(0, 1))
  return {'mean': found.mean, 'low': found.low, 'high': found.high}


def test_most_sources_are_counted(tmp_path, get):
  for i in range(7):
    runs.write(tmp_path, f'run{i}')
  _, found = get('episodes/summary')
  assert len(found['sources']) + found['more_sources'] == 7
  assert len(found['sources']) < 7


def test_equal_returns_have_one_bin(tmp_path, get):
  runs.write(tmp_path, episodes=returns(0, 0))
  _, found = get('episodes/summary')
  assert found['bins'] == [{'n': 2, 'successes': 0}]


def test_values_to_choose_from(tmp_path, get):
  runs.write(tmp_path, 'a', episodes=returns(0, 1))
  runs.write(
      tmp_path, 'b', episodes=[runs.episode('x', env='textcraft', task_id=0)]
  )
  (_, every), (_, one) = get('episodes/values', 'episodes/values?run=b')
  assert every['env'] == [
      {'value': 'babyai', 'n': 2},
      {'value': 'textcraft', 'n': 1},
  ]
  assert one['env'] == [{'value': 'textcraft', 'n': 1}]
  assert [x['value'] for x in one['run']] == ['a', 'b']


@pytest.mark.parametrize(
    'path, words',
    [
        ('episodes?step=x', 'no number and no range'),
        ('episodes?sort=x', 'not sorted by'),
        ('episodes?from=-1', 'no whole number'),
        (f'turns?{HERE}0&count=x', 'no whole number'),
    ],
)
def test_what_cannot_be_asked(tmp_path, get, path, words):
  runs.write(tmp_path)
  status, found = get(path)
  assert status == 422 and words in found['error']


def test_an_episode_in_windows(tmp_path, get):
  turns = tuple(runs.turn(i, observation=f'{i} ' * 3000) for i in range(30))
  runs.write(tmp_path, episodes=returns(0) + [runs.episode('b', made=turns)])
  (_, head), (_, window), (_, rest), (_, last) = get(
      f'episode?{HERE}1',
      f'turns?{HERE}1&from=28&count=5&limit=10',
      f'text?{HERE}1&path=turns.28.observation&from=10&count=7',
      f'turns?{HERE}1&from=99',
  )
  assert (head['episode_id'], head['turns']) == ('b', 30)
  assert (head['before'], head['after'], head['episodes']) == (0, None, 2)
  assert head['has_tokens'] and head['prompt'][1]['content'] == {
      'text': 'You see a ball.',
      'chars': 15,
  }
  assert [x['turn'] for x in window['turns']] == [28, 29]
  assert window['turns'][0]['observation'] == {
      'text': '28 28 28 2',
      'chars': 9000,
  }
  assert window['turns'][0]['reward'] == 0.0
  assert rest == {'from': 10, 'text': '8 28 28', 'chars': 9000}
  assert last == {'from': 30, 'total': 30, 'turns': []}


@pytest.mark.parametrize(
    'path',
    [
        'turns.9.observation', 'turns.-1.action', 'turns.0.reward', 'prompt.0',
        'prompt.7.content', '', 'turns.0.parse_error', 'error',
        'turns.0.__class__',
    ],
)  # fmt: skip
def test_a_text_that_is_not_there(tmp_path, get, path):
  runs.write(tmp_path)
  status, found = get(f'text?{HERE}0&path={path}')
  assert status == 404 and 'has no text' in found['error']


def test_a_file_that_was_replaced_since(tmp_path):
  path = runs.write(tmp_path)

  async def main():
    app = server.make_app(tmp_path)
    index = app[STATE].index
    index.refresh()
    (row,) = index.query('SELECT * FROM episodes WHERE line = 3')
    path.write_bytes(path.read_bytes()[: row['offset'] + 5])
    runner = aiohttp.web.AppRunner(app)
    index.refresh = lambda tell: False  # it has not noticed yet
    await runner.setup()
    site = aiohttp.web.TCPSite(runner, '127.0.0.1', 0)
    await site.start()
    url = f'http://127.0.0.1:{runner.addresses[0][1]}/api/turns?{HERE}3'
    async with aiohttp.ClientSession() as session:
      async with session.get(url) as response:
        assert response.status == 422
        assert 'load the page again' in (await response.json())['error']
    await runner.cleanup()

  asyncio.run(main())


def test_events_tell_of_new_episodes(tmp_path):
  async def main():
    async with server.running(tmp_path) as url:
      async with aiohttp.ClientSession() as session:
        async with session.get(f'{url}api/events') as response:
          assert response.content_type == 'text/event-stream'
          read = lambda: asyncio.wait_for(response.content.readline(), 30)
          assert await read() == b'event: change\n'
          assert b'"changes": ' in await read()
          runs.write(tmp_path)
          rows = []
          while not rows:  # the first look at the empty folder is news, too
            while await read() != b'event: change\n':
              pass
            async with session.get(f'{url}api/episodes') as found:
              rows = (await found.json())['rows']
          assert len(rows) == 4

  asyncio.run(main())
