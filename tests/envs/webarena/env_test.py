"""Tests for episodes on the sites, in a real browser."""

import re

import pytest

from agentrl.envs.webarena.env import WebArenaFactory
from agentrl.errors import ConfigError, EnvError
from agentrl.sites import table
from agentrl.sites.task import CHANGE, SEEK

pytestmark = pytest.mark.browser


def some(kind, site='forum'):
  """The first task of a kind on a site."""
  for name, template in table.TEMPLATES.items():
    if name.startswith(site) and template.kind == kind:
      return table.ids_of(name)[0]
  raise LookupError(kind)


@pytest.fixture(scope='module')
def factory():
  made = WebArenaFactory(episodes=4)
  yield made
  made.close()


@pytest.fixture
def envs(factory):
  made = [factory.make(), factory.make()]
  yield made
  for env in made:
    env.close()


@pytest.fixture
def env(envs):
  return envs[0]


def finish(env):
  """Plays on as the expert does."""
  while True:
    result = env.step(env.expert_action())
    if result.terminated:
      return result


@pytest.mark.parametrize('kind', [SEEK, CHANGE])
@pytest.mark.parametrize('command', ['stop []', 'stop [N/A]', 'stop [done]'])
def test_who_stops_at_once_earns_nothing(env, kind, command):
  env.reset(some(kind), 0)
  result = env.step(command)
  assert (result.reward, result.terminated, result.success) == (0, True, False)
  with pytest.raises(EnvError, match='reset it first'):
    env.step('stop []')


def test_two_episodes_change_the_same_records_and_neither_sees_it(envs):
  one, other = envs
  task = some(CHANGE)
  one.reset(task, 0)
  other.reset(task, 0)
  site = table.find(task)[0]
  store = one.store_of(site)
  assert finish(one).reward == 1.0
  assert store.changes(one.copy_of(site))
  assert store.changes(other.copy_of(site)) == ()
  assert finish(other).reward == 1.0
  # And the next episode begins as the first did.
  one.reset(task, 0)
  assert one.copy_of(site).serialize() == store.data


def test_two_servers_share_nothing(env):
  again = WebArenaFactory(episodes=1)
  try:
    other = again.make()
    task = some(CHANGE)
    text = env.reset(task, 0)
    assert other.reset(task, 0) == text
    assert finish(env).reward == finish(other).reward == 1.0
    other.close()
  finally:
    again.close()


def test_the_same_actions_give_the_same_texts(env):
  task = some(CHANGE)
  runs = []
  for _ in range(2):
    texts = [env.reset(task, 0)]
    while True:
      result = env.step(env.expert_action())
      texts.append(result.observation)
      if result.terminated:
        break
    runs.append(texts)
  assert runs[0] == runs[1]


def test_observations_name_the_sites_and_no_ports(env):
  text = env.reset(some(SEEK), 0)
  assert 'URL: http://forum' in text and '127.0.0.1' not in text
  assert env.details()['sites'] == ['forum']


def test_an_expert_whose_way_was_left_says_so(env):
  env.reset(some(CHANGE), 0)
  env.step('goto [http://shop/]')
  with pytest.raises(EnvError, match='other commands were given before'):
    env.expert_action()
  env.reset(some(CHANGE), 0)
  env.step('click [99999]')  # refused: nothing was done
  assert finish(env).reward == 1.0


def test_the_sites_reach_each_other_and_nothing_else(env):
  env.reset(some(SEEK), 0)
  for site in ('shop', 'admin', 'forge', 'forum'):
    assert (
        f'URL: http://{site}/' in env.step(f'goto [http://{site}/]').observation
    )
  result = env.step('goto [http://localhost:1/]')
  assert 'cannot be reached from here' in result.observation


@pytest.mark.parametrize(
    'path', ['/nowhere', '/%00', '/../etc/passwd', '/?page=-1']
)
def test_strange_addresses_are_pages(env, path):
  env.reset(some(SEEK), 0)
  result = env.step(f'goto [http://forum{path}]')
  assert not result.terminated and 'OBSERVATION' in result.observation


def test_records_that_cannot_be_used_are_an_error_and_no_zero(env):
  task = some(CHANGE)
  env.reset(task, 0)
  site, _, _ = table.find(task)
  env.copy_of(site).execute('PRAGMA query_only = ON')
  with pytest.raises(EnvError, match='reset it again: POST .* readonly'):
    finish(env)
  env.reset(task, 0)
  assert finish(env).reward == 1.0


def test_unknown_tasks_and_options_are_refused(env):
  with pytest.raises(EnvError, match='no task 5'):
    env.reset(5, 0)
  for wrong, words in (
      (dict(tasks='shopping'), 'Unknown tasks'),
      (dict(observe='picture'), 'Unknown observe'),
      (dict(style='terse'), 'Unknown style'),
      (dict(navigation='last'), 'Unknown navigation'),
      (dict(most_chars=99), 'most_chars must be 100 to 16000, got 99'),
      (dict(observe='html', style='lean'), 'accessibility tree'),
      (dict(observe='html', style='controls'), 'accessibility tree'),
      (dict(observe='html', navigation='first'), 'accessibility tree'),
      (dict(errors=0.9), 'errors must be 0 to 0.5'),
      (dict(session=-1), 'session must be 0 or more'),
      (dict(episodes=0), 'episodes must be 1 to 64'),
  ):
    with pytest.raises(ConfigError, match=words):
      WebArenaFactory(**wrong)


def test_lean_pages_lead_the_expert_to_its_goal():
  """Each number that it clicks stands on the page, which is a third shorter.

  Its tokens are half as many: they have less punctuation and no long numbers.
  Controls alone are fewer again.
  """
  texts = {}
  for style, navigation in (
      ('compact', 'always'),
      ('lean', 'first'),
      ('controls', 'never'),
  ):
    factory = WebArenaFactory(episodes=1, style=style, navigation=navigation)
    try:
      env = factory.make()
      text = env.reset(table.ids_of('shop/cart_this')[0], 0)
      texts[style] = [text]
      result = None
      while result is None or not result.terminated:
        action = env.expert_action()
        if number := re.match(r'(?:click|type) (\[\d+\])', action):
          assert f'{number[1]} ' in text
        result = env.step(action)
        text = result.observation
        texts[style].append(text)
      assert result.reward == 1.0
      env.close()
    finally:
      factory.close()
  # Menus stand on the first page alone.
  assert 'link Advanced Search' in texts['lean'][0]
  assert 'link Advanced Search' not in ''.join(texts['lean'][1:])
  assert 'link Advanced Search' not in ''.join(texts['controls'])
  size = {style: len(''.join(said)) for style, said in texts.items()}
  assert size['lean'] < 0.67 * size['compact']
  assert size['controls'] < 0.8 * size['lean']


def test_pages_are_cut_where_an_option_says():
  factory = WebArenaFactory(episodes=1, style='controls', most_chars=300)
  try:
    env = factory.make()
    text = env.reset(table.ids_of('shop/cart_this')[0], 0)
    _objective, _title, *page, left = text.split('\n')
    assert 200 < len('\n'.join(page)) <= 300
    assert re.fullmatch(r'\.\.\. \(\d+ more lines\)', left)
    env.expert_action()  # sees the whole
    env.close()
  finally:
    factory.close()


@pytest.mark.parametrize('observe', ['viewport', 'html'])
def test_experts_need_whole_pages(observe):
  factory = WebArenaFactory(episodes=1, observe=observe)
  try:
    env = factory.make()
    assert 'OBJECTIVE' in env.reset(some(SEEK), 0)
    with pytest.raises(EnvError, match="must be 'page'"):
      env.expert_action()
    env.close()
  finally:
    factory.close()
