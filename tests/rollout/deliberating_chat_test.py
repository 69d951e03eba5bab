"""Plans, sub-tasks and lessons of a policy over messages."""

import itertools

from agentrl.rollout.options import (
    ContextOptions,
    PlanOptions,
    ReflectOptions,
)
from agentrl.rollout.text_agent import TextAgent
from agentrl.types import TextCompletion
from tests.rollout import scripts


class Speaker:
  """Says texts in turn, and the last one for ever."""

  def __init__(self, *texts):
    self._texts = list(texts)
    self.asked = []

  async def complete(self, messages, *, max_completion_tokens, seed):
    text = self._texts.pop(0) if len(self._texts) > 1 else self._texts[0]
    self.asked.append((messages, max_completion_tokens, seed))
    return TextCompletion(text, 'stop', 'm', None, None, None, 0.0)


def test_a_conversation_has_all_of_them_and_roles_alternate():
  agent = TextAgent(
      instructions='Walk.',
      format='plain',
      context=ContextOptions(kind='fold'),
      plan=PlanOptions(kind='start', tokens=7),
      reflect=ReflectOptions(attempts=2, tokens=9),
  )
  first = scripts.play(agent, Speaker('plan', 'wait'), steps=3, horizon=2)
  policy = Speaker('hurry', 'plan', 'branch: walk', 'go', 'return: near', 'go')
  episode = scripts.play(agent, policy, steps=3, previous=first)
  assert episode.success and episode.tokens == ()
  assert scripts.kinds(episode) == [
      'lesson', 'plan', 'branch', 'act', 'return', 'act', 'act',
  ]  # fmt: skip
  assert [most for _, most, _ in policy.asked] == [9, 7, 40, 40, 40, 40, 40]
  for messages, _, _ in policy.asked:
    roles = [message.role for message in messages]
    assert roles[:2] == ['system', 'user'] and roles[-1] == 'user'
    assert all(a != b for a, b in itertools.pairwise(roles))
  lesson, plan, *_, last = (messages for messages, _, _ in policy.asked)
  assert 'wait\n\n3 to go.' in lesson[-1].content
  assert plan[-1].content.endswith('Do not act yet.')
  assert 'A lesson from your last attempt: hurry' in last[1].content
  assert 'Result of the sub-task: near\n\n2 to go.' in last[-3].content
