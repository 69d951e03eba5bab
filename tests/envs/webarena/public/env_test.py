"""Tests for episodes of public tasks, on stand-ins for the hosts."""

import json
import time

import pytest
from aiohttp import web

from agentrl import envs
from agentrl.envs.webarena import options
from agentrl.envs.webarena.public import sites as sites_lib
from agentrl.errors import ConfigError, EnvError
from tests.envs.web import sites
from tests.envs.webarena.public import records

pytestmark = pytest.mark.browser

PAGE = """<h1>Postmill</h1><a href="/f/books">books</a>
<a href="http://127.0.0.1:9/">outside</a>"""


TASKS = [
    records.raw(
        1,
        eval_types=['string_match'],
        reference_answers={'exact_match': 'books'},
    ),
    records.raw(
        2, eval_types=['url_match'], reference_url='__REDDIT__/f/books'
    ),
    records.raw(
        3,
        eval_types=['program_html'],
        program_html=[{
            'url': '__REDDIT__/f/books',
            'locator': '',
            'required_contents': {'must_include': ['Novels']},
        }],
    ),
    records.raw(
        4,
        eval_types=['string_match'],
        reference_answers={'fuzzy_match': ['books']},
    ),
]
VISIT = records.verified(
    5,
    records.answer(task_type='navigate'),
    records.request('__REDDIT__/f/books'),
)
VOTE = records.verified(
    6,
    records.answer(task_type='mutate'),
    records.request(
        '__REDDIT__/vote', http_method='POST', post_data={'choice': '1'}
    ),
    records.request(
        '__REDDIT__/star.json',
        http_method='POST',
        post_data={'$.of.id': 7},
        response_content={'stars': 5},
    ),
)
DONE = 'stop [{"task_type": "%s", "status": "SUCCESS"}]'


@pytest.fixture
def server(monkeypatch):
  for variable in sites_lib.VARIABLES.values():
    monkeypatch.delenv(variable, raising=False)
  with sites.serving() as found:
    found.pages['/'] = PAGE
    found.pages['/f/books'] = '<h1>Books</h1><p>Novels and more</p>'
    monkeypatch.setenv('REDDIT', found.url)
    yield found


@pytest.fixture
def opened(server, tmp_path):
  """Makes an environment of the tasks above."""
  made = []

  def go(tasks='raw', records=TASKS, **others):
    path = tmp_path / 'tasks.json'
    path.write_text(json.dumps(records))
    factory = envs.get('webarena').open(
        tasks=tasks, task_file=str(path), episodes=1, **others
    )
    made.append(factory)
    return factory.make()

  yield go
  for factory in made:
    factory.close()


def click(text, name, role='link'):
  """The command that clicks the element of this name."""
  [line] = [x for x in text.splitlines() if f"{role} '{name}'" in x]
  return f'click [{line.strip()[1:].partition("]")[0]}]'


@pytest.mark.parametrize(
    'answer,reward', [('books', 1.0), ('Books', 1.0), ('book', 0.0), ('', 0.0)]
)
def test_an_answer(opened, answer, reward):
  env = opened()
  text = env.reset(1, 0)
  assert 'OBJECTIVE: Go there 1' in text and "link 'books'" in text
  assert env.details() == {'sites': ['reddit'], 'object': 'Go there 1'}
  result = env.step(f'stop [{answer}]')
  assert (result.reward, result.terminated) == (reward, True)


def test_a_place_and_a_page(opened):
  env = opened()
  for task_id, there in ((2, True), (2, False), (3, False)):
    text = env.reset(task_id, 0)
    if there:
      env.step(click(text, 'books'))
    wanted = there or task_id == 3
    assert env.step('stop []').reward == float(wanted)


def test_a_dead_site_is_an_error_and_no_zero(opened, monkeypatch):
  with sites.serving() as dead:
    monkeypatch.setenv('REDDIT', dead.url)
  env = opened()
  with pytest.raises(EnvError, match='REDDIT=.* does not answer'):
    env.reset(1, 0)


@pytest.fixture
def dying(opened, monkeypatch):
  """Begins an episode on a site that is dead then."""

  def begin(task_id=1, **others):
    with sites.serving() as site:
      site.pages['/'] = PAGE
      monkeypatch.setenv('REDDIT', site.url)
      env = opened(**others)
      return env, env.reset(task_id, 0)

  return begin


@pytest.mark.parametrize('leave', [True, False])
def test_a_site_that_dies_is_an_error_and_no_zero(dying, leave):
  env, text = dying()
  with pytest.raises(EnvError, match='REDDIT=.* does not answer'):
    env.step(click(text, 'books') if leave else 'stop [wrong]')
  with pytest.raises(EnvError, match='reset it first'):
    env.step('stop [books]')


def test_a_right_answer_needs_no_living_site(dying):
  env, _ = dying()
  assert env.step('stop [books]').reward == 1.0


def test_a_site_that_fails_is_an_error_and_no_zero(opened, server):
  async def failing(request):
    del request
    return web.Response(status=503)

  env = opened()
  text = env.reset(1, 0)
  server.pages['/'] = server.pages['/f/books'] = failing
  env.step(click(text, 'books'))
  with pytest.raises(EnvError, match='REDDIT=.* answers with status 503'):
    env.step('stop [wrong]')


def test_a_page_that_may_not_be_loaded_is_the_policys_own_fault(opened):
  env = opened()
  result = env.step(click(env.reset(2, 0), 'outside'))
  assert 'chrome-error:' in result.observation and not result.terminated
  assert env.step('stop []').reward == 0.0


@pytest.mark.parametrize('there', [True, False])
def test_a_verified_task(opened, there):
  env = opened('verified', [VISIT])
  text = env.reset(5, 0)
  if there:
    env.step(click(text, 'books'))
  result = env.step(DONE % 'NAVIGATE')
  assert (result.reward, result.terminated) == (float(there), True)


@pytest.mark.parametrize('stars', [5, 6])
def test_what_was_posted_and_answered_is_graded(opened, server, stars):
  async def voted(request):
    del request
    return web.json_response({'stars': stars})

  server.pages['/star.json'] = voted
  server.pages['/vote'] = 'Thank you'
  server.pages['/'] = """<form method=post action=/vote>
  <input type=hidden name=choice value=1><button>Vote</button></form>
  <a href="#" onclick="fetch('/star.json', {method: 'POST', body:
  JSON.stringify({of: {id: 7}}), headers: {'Content-Type':
  'application/json'}})">star</a>"""
  env = opened('verified', [VOTE])
  text = env.step(click(env.reset(6, 0), 'star')).observation
  env.step(click(text, 'Vote', 'button'))
  assert env.step(DONE % 'MUTATE').reward == float(stars == 5)


def test_a_verified_task_on_a_site_that_dies(dying):
  env, _ = dying(5, tasks='verified', records=[VISIT])
  with pytest.raises(EnvError, match='REDDIT=.* does not answer'):
    env.step(DONE % 'NAVIGATE')


def test_a_task_that_begins_elsewhere_is_refused(opened):
  elsewhere = {**TASKS[0], 'start_url': 'http://elsewhere.test/'}
  env = opened(records=[elsewhere])
  with pytest.raises(EnvError, match='task 1 cannot begin.*elsewhere.test:80'):
    env.reset(1, 0)


@pytest.mark.parametrize(
    'judge,words',
    [('divmod', 'judge failed on task 4: TypeError'), ('max', "got 'got")],
)
def test_a_judge_that_fails_is_an_error_and_no_zero(opened, judge, words):
  env = opened(judge=f'builtins:{judge}')
  env.reset(4, 0)
  with pytest.raises(EnvError, match=words):
    env.step('stop [got it]')


def test_a_har_file_is_kept_where_asked_for(opened, tmp_path):
  env = opened(har=str(tmp_path / 'har'))
  env.reset(1, 0)
  env.step('stop [books]')
  env.close()
  [path] = (tmp_path / 'har').glob('001-*.har')
  for _ in range(100):
    if path.stat().st_size:
      break
    time.sleep(0.1)  # contexts close behind their episodes
  entries = json.loads(path.read_text())['log']['entries']
  assert any(x['request']['url'].endswith('/') for x in entries)


def test_what_cannot_be_played_is_counted_and_refused(opened, caplog):
  env = opened()
  assert '3 of WebArena' in caplog.text and 'needs a judge' in caplog.text
  with pytest.raises(EnvError, match='task 4 cannot be played here'):
    env.reset(4, 0)


def test_without_sites_the_way_out_is_named(monkeypatch, opened):
  monkeypatch.delenv('REDDIT')
  with pytest.raises(ConfigError, match='REDDIT not set.*SHOPPING'):
    opened()


@pytest.mark.parametrize(
    'others,words',
    [
        (dict(slow=0.1), 'slow has no effect on public tasks'),
        (dict(judge='nowhere:judge'), 'is no module:function'),
        (dict(accounts='none.json'), 'none.json cannot be read'),
    ],
)
def test_wrong_options(opened, others, words):
  with pytest.raises((ConfigError, EnvError), match=words):
    opened(**others)


def test_options_of_public_tasks_are_refused_on_our_own():
  with pytest.raises(ConfigError, match='judge has no effect on own tasks'):
    envs.get('webarena').open(judge='a:b')
  assert options.is_public('raw') and not options.is_public(('raw',))
