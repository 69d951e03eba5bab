"""Tests for live play through its routes, in real environments."""

import json
import pathlib
import shutil
import urllib.error
import urllib.parse
import urllib.request

import pytest

from agentrl import envs
from agentrl.rollout.agent import make_agent
from agentrl.rollout.options import AgentOptions
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.viewer import play, policies
from tests import fakes
from tests.viewer import conftest, played, runs

KEY = 'a-key-that-no-page-may-see'
POLICIES = pathlib.Path(__file__).parents[2] / 'experiments' / 'policies'


class Player:
  """Requests as the page sends them; keeps all that is answered."""

  def __init__(self, url):
    self._url, self.answers = url, []

  def get(self, route, **query):
    return self._ask(f'{route}?{urllib.parse.urlencode(query)}', None)

  def post(self, route, **body):
    return self._ask(route, json.dumps(body).encode())

  def refusal(self, route, **body):
    with pytest.raises(urllib.error.HTTPError) as caught:
      self.post(route, **body)
    return json.loads(caught.value.__notes__[0])['error']

  def _ask(self, route, body):
    try:
      response = urllib.request.urlopen(f'{self._url}api/{route}', body)
    except urllib.error.HTTPError as error:
      error.add_note(error.read().decode())
      raise
    with response:
      self.answers.append(response.read().decode())
    return json.loads(self.answers[-1])


def test_an_expert_plays_and_a_branch_goes_another_way(tmp_path, viewer):
  runs.write(tmp_path)
  player = Player(viewer(tmp_path))
  assert 'textcraft' in player.get('play')['environments']
  state = player.post('play/start', env='textcraft', task=120)
  session = state['session']
  while not state['over']:
    state = player.post('play/step', session=session, actor='expert')
  assert state['success'] and state['return'] == 1
  assert {x['actor'] for x in state['turns']} == {'expert'}
  assert 'is over' in player.refusal(
      'play/step', session=session, actor='expert'
  )
  branch = player.post(
      'play/start',
      branch={'session': session, 'turns': len(state['turns']) - 1},
  )
  assert branch['session'] != session and not branch['differences']
  assert branch['turns'][0]['action'] == state['turns'][0]['action']
  odd = player.post(
      'play/step', session=branch['session'], actor='hand', action='fly'
  )
  assert 'Could not execute' in odd['turns'][-1]['observation']['text']
  on = player.post('play/step', session=branch['session'], actor='expert')
  assert on['over'] == 'terminated' and on['success']
  again = player.get('play/session', session=session)
  assert len(again['turns']) == len(state['turns'])
  player.post('play/end', session=session)
  assert 'has ended' in player.refusal(
      'play/step', session=session, actor='expert'
  )


def test_a_saved_episode_is_gone_on_from(tmp_path, viewer):
  episode = played.expert_episode('textcraft')
  runs.write(tmp_path, episodes=[episode])
  player = Player(viewer(tmp_path))
  where = {'run': 'run', 'file': 'episodes/train/000000.jsonl', 'line': '0'}
  state = player.post('play/start', episode={**where, 'turns': 1})
  assert len(state['turns']) == 1 and not state['differences']
  assert state['task'] == episode.task_id
  random = player.post('play/step', session=state['session'], actor='random')
  assert random['turns'][1]['actor'] == 'random'


def test_sessions_are_few_and_requests_are_checked(
    tmp_path, viewer, monkeypatch
):
  monkeypatch.setattr(play, '_MOST', 1)
  runs.write(tmp_path)
  player = Player(viewer(tmp_path))
  state = player.post('play/start', env='textcraft')
  assert 'sessions are open' in player.refusal('play/start', env='textcraft')
  session = state['session']
  player.post('play/end', session=session)
  for body, said in (
      ({'env': 'my.module:SPEC'}, 'no environment'),
      ({'env': 'textcraft', 'task': 10**9}, 'no task'),
      ({'env': 'textcraft', 'run': '../..'}, 'no run'),
      ({'env': 3}, 'cannot be read'),
  ):
    assert said in player.refusal('play/start', **body)
  # What was refused holds no place.
  state = player.post('play/start', env='textcraft')
  assert 'Nobody is called' in player.refusal(
      'play/step', session=state['session'], actor='god'
  )


def test_a_samplers_key_stays_here_and_its_tokens_are_shown(tmp_path, viewer):
  tokenizer = tokenizer_lib.train_bpe(['inventory get 1'], vocab_size=400)
  runs.write(tmp_path)
  tokenizer.save(tmp_path / 'run' / 'tokenizer')
  (tmp_path / 'run' / 'config.json').write_text(
      json.dumps({
          'mode': 'train',
          'env': {'name': 'textcraft', 'options': {}},
          'agent': {
              'format': 'plain', 'instructions': 'compact', 'template': None
          },
          'rollout': {'max_completion_tokens': 8, 'max_context': 4096},
      })  # fmt: skip
  )
  ids = tokenizer.encode('inventory')
  tops = [[[-0.1 * k, i, None] for k, i in enumerate((1, *ids))] for _ in ids]
  reply = fakes.generate_reply(ids, output_top_logprobs=tops)
  (tmp_path / 'key').write_text(KEY)
  with conftest.threaded(fakes.FakeEngine([reply] * 2)) as engine:
    url = viewer(
        tmp_path,
        samplers=(engine.url,),
        sampler_key_file=str(tmp_path / 'key'),
    )
    player = Player(url)
    state = player.post('play/start', env='textcraft', run='run', task=120)
    for _ in range(2):
      state = player.post(
          'play/step',
          session=state['session'],
          actor='sampler',
          sampler=0,
          run='run',
      )
    assert [x['action']['text'] for x in state['turns']] == ['inventory'] * 2
    said = state['turns'][1]['said']
    assert ''.join(x['text'] for x in said) == 'inventory'
    assert len(said[0]['tops']) == len(ids) + 1
    first, second = engine.requests
    # The second prompt is the first, what was sampled, and the answer.
    grown = second['input_ids']
    assert grown[: len(first['input_ids'])] == first['input_ids']
    assert grown[len(first['input_ids']) :][: len(ids)] == ids
    assert first['top_logprobs_num'] > 0
    assert engine.headers[0]['Authorization'] == f'Bearer {KEY}'
    assert not any(KEY in answer for answer in player.answers)


@pytest.mark.slow  # a child process loads it
@pytest.mark.parametrize('name', ['quickstart', 'frozenlake', 'babyai-smollm2'])
def test_an_exported_policy_plays_and_is_no_run(name, tmp_path, viewer):
  shutil.copytree(POLICIES / name, tmp_path / name)
  player = Player(viewer(tmp_path))
  assert not player.get('runs')['runs']
  [policy] = player.get('play')['runs']
  assert (policy['run'], policy['checkpoints']) == (name, [])
  config = json.loads((tmp_path / name / 'agentrl.json').read_text())
  tasks = envs.get(policy['env']).tasks('dev', **config['env']['options'])
  ends = []
  for task in tasks[:8]:
    state = player.post('play/start', env=policy['env'], run=name, task=task)
    while not state['over'] and len(state['turns']) < 12:
      state = player.post(
          'play/step', session=state['session'], actor='run', run=name
      )
    ends.append(state['success'])
    player.post('play/end', session=state['session'])
  assert sum(map(bool, ends)) >= 2  # 0.73 to 0.86 of them, by their cards
  tops = state['turns'][-1]['said'][0]['tops']
  assert len(tops) == 5


def test_what_live_play_does_not_follow_is_told(tmp_path, viewer):
  runs.write(tmp_path)
  path = tmp_path / 'run' / 'config.json'
  (tmp_path / 'run' / 'checkpoints' / '1').mkdir(parents=True)
  player = Player(viewer(tmp_path))
  for agent, unheeded in (
      ({}, []),
      ({'context': {'kind': 'full'}, 'reflect': {'attempts': 1}}, []),
      (
          {
              'context': {'kind': 'window', 'window': 2},
              'plan': {'kind': 'start'},
              'reflect': {'attempts': 2},
          },
          [
              'agent.context.kind=window',
              'agent.plan.kind=start',
              'agent.reflect.attempts=2',
          ],
      ),
      (None, []),
      ({'context': 'window'}, []),  # of another time
  ):
    path.write_text(json.dumps({'mode': 'train', 'agent': agent}))
    [run] = player.get('play')['runs']
    assert run['unheeded'] == unheeded


def test_words_of_others_become_the_tokens_that_the_policy_would_write():
  tokenizer = tokenizer_lib.train_bpe(['get inventory'], vocab_size=400)
  agent = make_agent(
      envs.get('textcraft'), tokenizer, AgentOptions(format='plain')
  )
  prompt = agent.first_messages('look')
  turn = runs.turn(0, completion='inventory', observation='nothing')
  ids = policies.transcript(agent, prompt, [turn], {})
  expected = list(agent.prompt_ids(prompt)) + agent.write('inventory')
  expected += agent.observation_ids('nothing', agent.write('inventory'))
  assert ids == expected
  cut = policies.transcript(agent, prompt, [turn], {0: [5, 6]})
  assert cut[len(agent.prompt_ids(prompt)) :][:2] == [5, 6]
