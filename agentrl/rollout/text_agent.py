"""The agent over messages: instructions and action format, without tokens."""

import abc
from collections.abc import Sequence
from typing import Generic, TypeVar

from agentrl.envs import conversation, formats, functions as functions_lib
from agentrl.envs.formats import Format
from agentrl.envs.functions import Functions
from agentrl.envs.spec import EnvSpec
from agentrl.errors import ConfigError, DataError
from agentrl.inference.chat import ChatPolicy
from agentrl.inference.chat_replies import ContextExceeded
from agentrl.inference.sampler import Policy
from agentrl.rollout import context as context_lib, seeds
from agentrl.rollout.dialogue import AnyCompletion, Dialogue, Reading
from agentrl.rollout.options import (
    FULL_CONTEXT,
    NO_PLAN,
    ONE_ATTEMPT,
    AgentOptions,
    ContextOptions,
    Limits,
    PlanOptions,
    ReflectOptions,
)
from agentrl.rollout.transcript import Transcript
from agentrl.text import reasoning
from agentrl.types import Message, TextCompletion

# The policies of an agent: over ids or over messages.
AnyPolicy = TypeVar('AnyPolicy', Policy, ChatPolicy)


class BaseAgent(abc.ABC, Generic[AnyPolicy, AnyCompletion]):
  """Base of `TextAgent` and `agent.Agent`: instructions and action format.

  They differ in the kind of policy, and of its completions: messages or ids.
  """

  def __init__(
      self,
      *,
      instructions: str,
      format: str,
      functions: Functions = (),
      tools: Format | None = None,
      conversations: bool = False,
      has_system: bool = True,
      context: ContextOptions = FULL_CONTEXT,
      plan: PlanOptions = NO_PLAN,
      reflect: ReflectOptions = ONE_ATTEMPT,
  ):
    """Keeps the parts.

    Args:
      instructions: system message, or the start of the first user message
        where there is no system role; left out when empty.
      format: how an action is written; a name that `envs.formats` knows.
      functions: of the environment, for formats in which they are called.
      tools: how calls are read and written where the model's template says so.
      conversations: whether observations may be whole conversations.
      has_system: whether the policy takes a system message.
      context: parts of a long episode that the policy still sees; may add
        instructions and, where actions are called, functions.
      plan: when it plans before it acts.
      reflect: how it learns from the attempt before.
    """
    self.context = context_lib.make(context)
    self.plan, self.reflect = plan, reflect
    words = [instructions, self.context.instructions]
    self._format = tools or formats.find(format)
    if self._format.calls and not self._format.tools:
      words.append(functions_lib.describe(self.context.functions))
    if self._format.calls:
      functions = (*functions, *self.context.functions)
    self._instructions = '\n\n'.join(filter(None, words))
    self._format_name = format
    self._functions = functions
    self._conversations = conversations
    self._has_system = has_system

  @abc.abstractmethod
  def dialogue(
      self, policy: AnyPolicy, limits: Limits, *, episode_id: str, seed: int
  ) -> Dialogue[AnyCompletion]:
    """Starts the conversation of an episode.

    Args:
      policy: continues it.
      limits: of the episode.
      episode_id: names the episode to samplers that keep its prefix.
      seed: of the episode.
    """

  def first_messages(self, observation: str) -> tuple[Message, ...]:
    """The conversation before the first completion."""
    if (found := self.conversation(observation)) is not None:
      return found
    if not self._instructions:
      return (Message('user', observation),)
    if not self._has_system:
      return (Message('user', f'{self._instructions}\n\n{observation}'),)
    return (
        Message('system', self._instructions),
        Message('user', observation),
    )

  def conversation(self, observation: str) -> tuple[Message, ...] | None:
    """The messages that an observation stands for; None: it is an answer."""
    found = conversation.read(observation) if self._conversations else None
    if found is None:
      return None
    return tuple(
        Message(
            said['role'],
            self.write_text(said['call'])
            if 'call' in said
            else said['content'],
        )
        for said in found
    )

  def read_text(self, text: str) -> Reading:
    """Looks for the action of a completion, which no thought holds."""
    action, parse_error = self._format.read(
        reasoning.answer(text), self._functions
    )
    return Reading(text, action, parse_error)

  def write_text(self, action: str) -> str:
    """A completion that says `action`, without a thought.

    Raises:
      ValueError: the format calls functions, and none stands for the action.
    """
    return self._format.write(action, self._functions)

  def check_format(self, completions: Sequence[str]) -> None:
    """Refuses completions most of which have no action in this agent's format.

    In format 'plain', a completion in another format counts as unreadable too:
    `Thought:`, say, is no action.

    Args:
      completions: of one record.

    Raises:
      DataError: names the format that fits, if there is one.
    """
    texts = [reasoning.answer(completion) for completion in completions]
    name = self._format_name
    read = {
        known: [format.read(text, self._functions)[1] is None for text in texts]
        for known, format in {**formats.FORMATS, name: self._format}.items()
    }
    marked = [known for known, x in formats.FORMATS.items() if x.marked]
    if name == 'plain':
      others = zip(*(read[other] for other in marked), strict=True)
      read['plain'] = [
          plain and not any(other)
          for plain, other in zip(read['plain'], others, strict=True)
      ]
    count = sum(read[name])
    if 2 * count >= len(texts):
      return
    best = max(marked, key=lambda known: sum(read[known]))
    fits = 2 * sum(read[best]) >= len(texts)
    raise DataError(
        f'agent.format={name!r} finds an action in {count} of its'
        f' {len(texts)} completions'
        + (f'; {best!r} does in {sum(read[best])}' if fits else '')
    )

  def correction(self, parse_error: str) -> str:
    """The observation after a completion without an action.

    The environment is not asked: it would count a step for words that it cannot
    know.
    """
    return f'Your reply was not understood: {parse_error}'


class TextAgent(BaseAgent[ChatPolicy, TextCompletion]):
  """Turns observations into messages and completions into actions."""

  def dialogue(
      self, policy: ChatPolicy, limits: Limits, *, episode_id: str, seed: int
  ) -> 'MessageDialogue':
    """Starts the conversation of an episode, see `BaseAgent`."""
    del episode_id  # a chat endpoint has no sticky routing
    return MessageDialogue(self, policy, limits, seed=seed)


class MessageDialogue:
  """A conversation in messages, see `Dialogue`; its transcript stays empty.

  The endpoint alone knows how many tokens a conversation has, so the context is
  full when it says so.
  """

  def __init__(
      self, agent: TextAgent, policy: ChatPolicy, limits: Limits, *, seed: int
  ):
    self._agent, self._policy = agent, policy
    self._limits = limits
    self._seed = seed
    self._messages: list[Message] = []
    self.transcript = Transcript()
    self.overflow = ''

  def count(self, text: str) -> None:
    del text  # the endpoint counts, when it has answered

  def fits(self, prompt: Sequence[Message], tokens: int) -> bool:
    del prompt, tokens
    return True

  async def open(self, prompt: Sequence[Message]) -> None:
    self._messages[:] = prompt

  async def ask(
      self, turn: int, *, most: int | None = None
  ) -> TextCompletion | None:
    try:
      return await self._policy.complete(
          tuple(self._messages),
          max_completion_tokens=most or self._limits.max_completion_tokens,
          seed=seeds.derive_seed(self._seed, turn),
      )
    except ContextExceeded as error:
      self.overflow = f"does not fit the model's context: {error}"
      return None

  def read(self, completion: TextCompletion) -> Reading:
    return self._agent.read_text(completion.text)

  def append(self, completion: TextCompletion) -> None:
    self._messages.append(Message('assistant', completion.text))

  async def used(self, observation: str) -> None:
    del observation

  async def observe(self, observation: str) -> None:
    self._messages.append(Message('user', observation))


def make_text_agent(
    spec: EnvSpec, options: AgentOptions, *, has_system: bool = True
) -> TextAgent:
  """The agent of a policy without a tokenizer in an environment.

  Args:
    spec: of the environment.
    options: the way of talking.
    has_system: whether the policy takes a system message.

  Raises:
    ConfigError: a chat template is named, which only token ids need.
  """
  if options.template is not None:
    raise ConfigError(
        f'agent.template={options.template!r} has no effect on a policy over'
        ' messages, whose endpoint has its own; leave it out.'
    )
  if formats.find(options.format).tools:
    raise ConfigError(
        f"agent.format={options.format!r} is read by a model's chat template,"
        ' which an endpoint of messages hides: use function_calling.'
    )
  if options.context.kind in context_lib.COUNTING:
    raise ConfigError(
        f'agent.context.kind={options.context.kind!r} counts tokens, which a'
        " policy over messages does not know; use 'full', 'window' or 'fold'."
    )
  return TextAgent(
      instructions=spec.instructions(options.format, options.instructions),
      format=options.format,
      functions=spec.functions,
      conversations=spec.conversations,
      has_system=has_system,
      context=options.context,
      plan=options.plan,
      reflect=options.reflect,
  )
