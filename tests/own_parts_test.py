"""The parts of agentrl/own.md, as written there, in one run."""

import pathlib
import re
import shlex

import pytest

from agentrl.data import episodes as episodes_lib
from tests import own_files
from tests.e2e import running

BABYAI = {'levels': ('GoToRedBall',), 'style': 'compact'}
PAGE = pathlib.Path(__file__).parents[1] / 'agentrl' / 'own.md'


@pytest.fixture(scope='module')
def flags(tmp_path_factory):
  """Those of the page, with the file where this machine has it."""
  folder = own_files.write(PAGE, tmp_path_factory.mktemp('own'))
  command = re.search(r'```bash\n(.*?)```', PAGE.read_text(), re.DOTALL)[1]
  words = shlex.split(command.replace('\\\n', ' '))
  return [
      word.replace('my_parts.py', f'{folder}/my_parts.py')
      for word in words
      if word.startswith('--config.')
  ]


@pytest.mark.slow
def test_the_parts_of_the_page_act_and_go_on_after_a_kill(flags, tmp_path):
  flags = (*flags, '--config.sampler.deterministic=True')
  whole, killed = tmp_path / 'whole', tmp_path / 'killed'
  running.finish(whole, *flags, config=running.QUICKSTART)
  running.finish_killed(killed, *flags, config=running.QUICKSTART)
  running.assert_equal_to_the_bit(whole, killed)
  episodes = _check_episodes(whole)
  assert any(len(episode.segments) > 1 for episode in episodes)
  steps = [step for step, _ in running.lines(whole / 'mine.jsonl')]
  assert {0, 1} <= set(steps)


@pytest.mark.slow
def test_all_members_of_a_mixture_have_the_parts(flags, tmp_path):
  members = {
      'babyai': {'env': {'name': 'babyai', 'options': BABYAI}},
      'textcraft': {'env': {'name': 'textcraft', 'options': {'max_depth': 1}}},
  }
  flags = (
      *flags,
      f'--config.mixture={members}',
      '--config.num_steps=2',
      '--config.rollout.tasks_per_step=4',
      '--config.rollout.max_context=1024',
      '--config.warmstart.episodes=8',
      '--config.eval.num_tasks=2',
      '--config.eval.horizon=2',
  )
  running.finish(tmp_path, *flags, config=running.small('mixture_grpo'))
  episodes = _check_episodes(tmp_path)
  assert {episode.env for episode in episodes} == set(members)


def _check_episodes(workdir):
  """The second step's, after a look at prompts, rewards and actions."""
  path = episodes_lib.step_path(workdir, 'train', 1)
  episodes = list(episodes_lib.read(path))
  for episode in episodes:
    assert 'Write > ACTION.' in episode.prompt[0].content
    *_, last = (turn for turn in episode.turns if turn.learn)
    given = sum(turn.env_reward for turn in episode.turns)
    assert last.reward == pytest.approx(given - 0.01 * len(episode.turns))
    for turn in episode.turns:
      _, arrow, action = turn.completion.partition('> ')
      assert turn.action == (action.strip() if arrow else '')
  return episodes
