"""Turns that are not for the environment, and attempts, in the viewer."""

import asyncio
import concurrent.futures

import aiohttp
import pytest

from agentrl.data import episodes as episodes_lib
from agentrl.envs import server
from agentrl.envs.blocks import Moment
from agentrl.envs.client import EnvClient
from agentrl.rollout import options
from agentrl.rollout.collect import collect
from agentrl.rollout.episode import run_episode
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.text.chat import ChatFormat
from agentrl.viewer import export, groups, index, markdown, record
from tests.rollout import scripts
from tests.viewer import again_test, play_test, runs

SAID = (
    'First logs, then planks.', 'branch: get the logs', 'get 1 acacia logs',
    'inventory', 'return: I hold a log',
    'craft 4 acacia planks using 1 acacia logs',
)  # fmt: skip
KINDS = ['plan', 'branch', 'act', 'act', 'return', 'act']


async def _play():
  chat = ChatFormat(tokenizer_lib.train_bpe([], 256 + 3))
  agent = scripts.make_agent(
      chat,
      context=options.ContextOptions(kind='fold'),
      plan=options.PlanOptions(kind='start'),
      reflect=options.ReflectOptions(attempts=2, learn=False),
  )
  async with (
      server.running('textcraft') as url,
      aiohttp.ClientSession() as session,
  ):

    def play(assignment):
      said = ['Be quick.'] * (assignment.previous is not None)
      return run_episode(
          EnvClient(session, url, env_name='textcraft'),
          agent,
          scripts.scripted(agent, *said, *SAID),
          episode_id=f'train-0-0-0.{assignment.attempt}',
          env_name='textcraft',
          task_id=assignment.task_id,
          split='train',
          seed=assignment.seed,
          policy_version=1,
          horizon=6,
          limits=options.Limits(max_context=20_000),
          attempt=assignment.attempt,
          previous=assignment.previous,
      )

    [group] = await collect([(0, 0)], 1, play, seed=0, concurrency=1, chain=2)
  return group.episodes


@pytest.fixture(scope='module', name='attempts')
def _attempts():
  """Two attempts at a task, with a plan and a sub-task each."""
  # In a thread: a browser's loop may run in this one.
  with concurrent.futures.ThreadPoolExecutor(1) as pool:
    found = pool.submit(lambda: asyncio.run(_play())).result()
  assert [scripts.kinds(e) for e in found] == [KINDS, ['lesson', *KINDS]]
  assert all(e.success for e in found)
  return found


def test_the_index_counts_actions_and_knows_attempts(attempts, tmp_path):
  runs.write(tmp_path, episodes=attempts, env='textcraft')
  made = index.Index(tmp_path)
  made.refresh()
  rows = made.query('SELECT * FROM episodes ORDER BY line')
  assert [row['attempt'] for row in rows] == [0, 1]
  assert [row['turns'] for row in rows] == [3, 3]
  assert [row['repeated'] for row in rows] == [0, 0]
  made.close()


def test_views_show_what_the_environment_said_last(attempts):
  episode = attempts[1]
  moments = [Moment(episode.prompt, episode.turns, n) for n in range(8)]
  opening = episode.prompt[-1].content
  got, held = (turn.observation for turn in episode.acts[:2])
  assert [m.observation for m in moments[:7]] == [
      *[opening] * 4, got, held, held
  ]  # fmt: skip
  assert moments[6].action == 'inventory' and moments[3].action == ''


def test_words_and_files_name_the_kinds(attempts):
  found = [record.decode(episodes_lib.to_line(x).encode()) for x in attempts]
  assert [x.num_segments for x in found] == [2, 3]
  text = markdown.document('t', found)
  assert '### Turn 2 (plan)' in text and '3 of 6 turns' in text
  assert '| train-0-0-0.1 | 1 | yes | terminated | 3 |' in text
  page = export.collect('t', [export.Source(x) for x in found], True)
  last = page['episodes'][1]
  assert (last['attempt'], last['segments'], last['num_acts']) == (1, 3, 3)
  assert 'Your last attempt' in last['turns'][0]['request']['text']
  cells = groups.align([x.turns for x in found])
  assert [x['kind'] for x in cells[1]] == ['lesson', *KINDS]
  assert cells[1][0]['action']['text'] == 'Be quick.'


def test_only_actions_are_played_again(attempts):
  for found in again_test.play_again(*attempts):
    assert found.differences == [] and found.ended == ''
  assert found.done == len(attempts[1].turns)


def test_live_play_goes_on_from_the_actions(attempts, tmp_path, viewer):
  runs.write(tmp_path, episodes=attempts, env='textcraft')
  player = play_test.Player(viewer(tmp_path))
  where = {'run': 'run', 'file': 'episodes/train/000000.jsonl', 'line': '1'}
  state = player.post('play/start', episode={**where, 'turns': 6})
  assert len(state['turns']) == 2 and not state['differences']


@pytest.mark.browser
def test_the_pages_show_kinds_segments_and_attempts(
    attempts, tmp_path, viewer, page
):
  runs.write(tmp_path, episodes=attempts, env='textcraft')
  where = 'run=run&file=episodes/train/000000.jsonl&line=1'
  url = viewer(tmp_path)
  page.goto(f'{url}#/replay?{where}&turn=1')
  page.locator('.stage .chip', has_text='lesson').wait_for()
  page.locator('.stage .chip', has_text='not trained on').wait_for()
  for words in ('attempt 2', '3 segments'):
    page.locator('.head .chip', has_text=words).wait_for()
  page.get_by_text('request', exact=True).click()
  page.get_by_text('Your last attempt:').wait_for()
  page.goto(f'{url}#/group?{where}')
  page.locator('.aligned .chip', has_text='branch').first.wait_for()
