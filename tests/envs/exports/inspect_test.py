"""Tests for agentrl.envs.exports.inspect, with Inspect's own evaluation."""

import pytest

from agentrl import envs
from agentrl.errors import ConfigError

inspect_ai = pytest.importorskip('inspect_ai')
# isort: split
from inspect_ai.model import ModelOutput, ModelUsage, get_model  # noqa: E402

from agentrl.envs.exports import inspect as exported  # noqa: E402

# Of tenacity, as Inspect calls it.
pytestmark = pytest.mark.filterwarnings(
    "ignore:The 'initial' parameter is deprecated:DeprecationWarning"
)
OPTIONS = {'max_depth': 1, 'distractors': 0}


def evaluate(outputs, tmp_path, limit=2, **arguments):
  """The log of an evaluation of a model that says these texts."""
  said = [ModelOutput.from_content('mockllm/model', x) for x in outputs]
  for output in said:
    output.usage = ModelUsage()  # it would download an encoding to count tokens
  (log,) = inspect_ai.eval(
      exported.environment(
          **{'env': 'textcraft', 'options': OPTIONS} | arguments
      ),
      model=get_model('mockllm/model', custom_outputs=said),
      limit=limit,
      max_samples=1,
      log_dir=str(tmp_path),
      display='none',
  )
  return log


def expert(task_id):
  """What the expert does, as completions, and what it is answered."""
  factory = envs.get('textcraft').open(**OPTIONS)
  env = factory.make()
  shown, said = [env.reset(task_id, 1)], []
  while True:
    action = env.expert_action()
    said.append(f'Thought: so.\nAction: {action}')
    result = env.step(action)
    shown.append(result.observation)
    if result.terminated:
      return said, shown


def test_the_expert_gets_what_it_gets_elsewhere(tmp_path):
  first, second, *_ = envs.get('textcraft').tasks('test', **OPTIONS)
  said, shown = expert(first)
  fails = ['I do not know.'] * len(said)
  log = evaluate(said + fails, tmp_path, horizon=len(said))
  assert log.status == 'success', log.error
  won, lost = log.samples
  assert (won.id, lost.id) == (first, second)
  assert won.scores['outcome'].value == {'success': 1.0, 'return': 1.0}
  assert lost.scores['outcome'].value == {'success': 0.0, 'return': 0.0}
  users = [x.text for x in won.messages if x.role == 'user']
  assert users == shown
  assert 'craft' in won.messages[0].text
  assert lost.messages[-1].text.startswith('Error: ')
  means = {
      score.name: score.metrics['mean'].value for score in log.results.scores
  }
  assert means == {'success': 0.5, 'return': 0.5}


def test_a_policy_is_told_as_it_was_trained(tmp_path):
  log = evaluate(['x'], tmp_path, 1, horizon=1, instructions='compact')
  told = envs.get('textcraft').instructions('react', 'compact')
  assert log.samples[0].messages[0].text == told
  log = evaluate(
      ['x'], tmp_path, 1, horizon=1, instructions='compact', format='plain'
  )
  assert log.samples[0].messages[0].role == 'user'  # as in training


def test_an_environment_that_fails_is_an_error_and_no_score(tmp_path):
  path = tmp_path / 'broken.py'
  path.write_text("""
import dataclasses
from agentrl import envs
from agentrl.envs.base import Independent

class Broken:
  def reset(self, task_id, seed):
    raise KeyError('it is broken')
  def close(self):
    pass

SPEC = dataclasses.replace(
    envs.get('textcraft'), open_factory=lambda **options: Independent(Broken)
)
""")
  log = evaluate(['x'], tmp_path, limit=1, env=f'{path}:SPEC')
  assert log.status == 'error' and 'it is broken' in str(log.error)
  assert not log.samples[0].scores


@pytest.mark.parametrize(
    'arguments, said',
    [
        ({'env': 'chess'}, "Unknown environment 'chess'"),
        ({'options': '{'}, 'is no JSON'),
        ({'options': {'depth': 1}}, 'no option depth'),
        ({'instructions': 'no_such:WORDS'}, 'no_such'),
        ({'horizon': 0}, 'horizon=0 is no number of turns'),
        ({'format': 'nonesuch'}, 'nonesuch'),
    ],
)
def test_what_is_wrong_is_said(arguments, said):
  with pytest.raises(ConfigError, match=said):
    exported.environment(**{'env': 'textcraft'} | arguments)
