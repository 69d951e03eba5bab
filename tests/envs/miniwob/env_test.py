"""Tests for MiniWoB's episodes, in a real browser."""

import pytest

from agentrl.envs.miniwob import tasks
from agentrl.envs.miniwob.env import MiniWoBFactory
from agentrl.errors import ConfigError, EnvError

pytestmark = pytest.mark.browser


@pytest.fixture(scope='module')
def factory():
  made = MiniWoBFactory(tasks='all', episodes=4)
  yield made
  made.close()


@pytest.fixture
def env(factory):
  made = factory.make()
  yield made
  made.close()


def task(page, seed=0):
  return tasks.id_of(page, seed)


def number(text, line):
  """The number of the element whose line ends so."""
  [found] = [x for x in text.splitlines() if x.strip().endswith(line)]
  return int(found.strip()[1:].partition(']')[0])


def test_the_right_button_earns_1_and_ends_the_episode(env):
  text = env.reset(task('click-button'), 0)
  assert 'OBJECTIVE: Click on the "' in text and 'URL: http://miniwob/' in text
  result = env.step(env.expert_action())
  assert (result.reward, result.terminated, result.success) == (1.0, True, True)
  with pytest.raises(EnvError, match='not running; reset it first'):
    env.step('click [1]')


def test_a_wrong_click_earns_the_page_s_minus_1(env):
  text = env.reset(task('click-test-2'), 0)
  wrong = number(text, "button 'TWO'")
  result = env.step(f'click [{wrong}]')
  assert (result.reward, result.terminated) == (-1.0, True)
  assert result.success is False


@pytest.mark.parametrize(
    'page',
    [
        'choose-date',
        'choose-date-easy',
        'choose-date-medium',
        'choose-date-nodelay',
        'book-flight',
        'book-flight-nodelay',
    ],
)
def test_a_calendar_opens_where_it_does_by_a_clock_of_today(env, page):
  """Today is after their dates, which end in December 2016."""
  text = env.reset(task(page), 0)
  field = number(text, "textbox 'datepicker'")
  text = env.step(f'click [{field}]').observation
  assert "StaticText 'December'" in text and "StaticText '2016'" in text


@pytest.mark.parametrize('command', ['stop []', 'stop [I give up]', 'stop'])
def test_who_stops_has_what_the_page_gave_so_far(env, command):
  env.reset(task('click-test'), 0)
  result = env.step(command)
  assert (result.reward, result.terminated, result.success) == (0, True, False)


def test_to_leave_the_page_ends_the_episode_without_a_reward(env):
  env.reset(task('click-test'), 0)
  result = env.step('goto [http://miniwob/miniwob/click-button.html]')
  assert (result.reward, result.terminated, result.success) == (0, True, False)


def test_time_does_not_run_out_and_costs_nothing(env):
  """The page ends after 10 s of its own time; a step takes one."""
  env.reset(task('click-button'), 0)
  for _ in range(25):
    result = env.step('scroll [down]')
    assert not result.terminated
  assert env.step(env.expert_action()).reward == 1.0


def test_what_is_no_command_changes_nothing(env):
  text = env.reset(task('click-button'), 0)
  for action in ('dance', 'click [99]', 'click 1', 'goto [file:///etc/passwd]'):
    result = env.step(action)
    assert (result.reward, result.terminated) == (0, False)
    assert text.partition('OBSERVATION')[2].partition('PREVIOUS')[0] == (
        result.observation.partition('OBSERVATION')[2].partition('PREVIOUS')[0]
    )


def test_a_fenced_command_is_read_as_webarena_s_server_reads_it(env):
  env.reset(task('click-button'), 0)
  command = env.expert_action()
  text = f'Let me think step by step.\n```{command}```'
  assert env.step(text).reward == 1.0


def test_equal_seeds_are_equal_problems_and_others_differ(factory):
  texts = []
  for seed in (3, 3, 4):
    env = factory.make()
    texts.append(env.reset(task('email-inbox', seed), 0))
    env.close()
  assert texts[0] == texts[1] != texts[2]


def test_a_picture_is_of_the_page_also_after_the_end(env):
  env.reset(task('click-button'), 0)
  first = env.picture()
  env.step(env.expert_action())
  last = env.picture()
  assert first.startswith(b'\x89PNG') and last.startswith(b'\x89PNG')


def test_pages_that_are_not_served_are_named():
  factory = MiniWoBFactory(tasks=('click-test',))
  env = factory.make()
  try:
    with pytest.raises(EnvError, match='is click-button; this server has only'):
      env.reset(task('click-button'), 0)
  finally:
    factory.close()


@pytest.mark.parametrize(
    'options, words',
    [
        ({'tasks': 'some'}, "say 'expert', 'all' or give a list"),
        ({'tasks': ('click',)}, "no page 'click'"),
        ({'tasks': ()}, 'tasks is empty'),
        ({'tasks': ('chase-circle',)}, 'left out: its shape moves'),
        ({'observe': 'pixels'}, "Unknown observe 'pixels'; known: page"),
        ({'style': 'short'}, 'Unknown style'),
        ({'episodes': 0}, 'episodes must be 1 to'),
    ],
)
def test_wrong_options_are_named(options, words):
  with pytest.raises(ConfigError, match=words):
    MiniWoBFactory(**options)


def test_a_missing_chromium_is_one_clear_error(monkeypatch):
  with pytest.raises(EnvError, match="no executable '/nowhere'"):
    MiniWoBFactory(chromium='/nowhere')
