"""The agent: instructions, chat template and action format of a policy."""

import asyncio
from collections.abc import Callable, Sequence

from agentrl.envs import formats
from agentrl.envs.formats import Format
from agentrl.envs.functions import Functions
from agentrl.envs.spec import EnvSpec
from agentrl.inference.sampler import Policy
from agentrl.rollout import context as context_lib, seeds
from agentrl.rollout.dialogue import Reading
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
from agentrl.rollout.text_agent import BaseAgent
from agentrl.rollout.transcript import Transcript
from agentrl.text.calls import NamedCallSyntax
from agentrl.text.chat import ChatFormat
from agentrl.text.tokenizer import LONG, Tokenizer
from agentrl.types import Completion, Message


class Agent(BaseAgent[Policy, Completion]):
  """Turns observations into token ids and token ids into actions.

  Ids never pass through text on their way back into the transcript: `read`
  gives text for the environment and for people only.
  """

  def __init__(
      self,
      chat: ChatFormat,
      *,
      instructions: str,
      format: str,
      functions: Functions = (),
      tools: Format | None = None,
      conversations: bool = False,
      context: ContextOptions = FULL_CONTEXT,
      plan: PlanOptions = NO_PLAN,
      reflect: ReflectOptions = ONE_ATTEMPT,
  ):
    """Keeps the parts.

    Args:
      chat: template and tokenizer of the model.
      instructions: see `BaseAgent`.
      format: see `BaseAgent`.
      functions: see `BaseAgent`.
      tools: see `BaseAgent`.
      conversations: see `BaseAgent`.
      context: see `BaseAgent`.
      plan: see `BaseAgent`.
      reflect: see `BaseAgent`.
    """
    super().__init__(
        instructions=instructions,
        format=format,
        functions=functions,
        tools=tools,
        conversations=conversations,
        has_system=chat.has_system,
        context=context,
        plan=plan,
        reflect=reflect,
    )
    self._chat = chat

  def dialogue(
      self, policy: Policy, limits: Limits, *, episode_id: str, seed: int
  ) -> 'TokenDialogue':
    """Starts the conversation of an episode, in ids; see `BaseAgent`."""
    return TokenDialogue(self, policy, limits, episode_id=episode_id, seed=seed)

  @property
  def stop_token_ids(self) -> tuple[int, ...]:
    """Ids that end a completion."""
    return self._chat.stop_ids

  def prompt_ids(self, messages: Sequence[Message]) -> list[int]:
    """Ids of `messages` and of the header that starts a completion."""
    return self._chat.prompt(messages, as_is=self._conversations)

  def observation_ids(
      self, observation: str, completion_ids: Sequence[int]
  ) -> list[int]:
    """Ids between a completion and the next one; none of them is sampled.

    Args:
      observation: the environment's answer.
      completion_ids: the completion it answers. When it was cut before its end
        token, that token comes first here, where no loss reaches it.
    """
    ended = completion_ids[-1] in self._chat.stop_ids
    called = self._chat.called(completion_ids)
    return self._chat.observation(observation, ended=ended, called=called)

  def count(self, text: str) -> int:
    """Tokens of a text."""
    return len(self._chat.tokenizer.encode(text))

  def read(self, completion_ids: Sequence[int]) -> Reading:
    """Decodes a completion and looks for its action, which no thought holds."""
    return self.read_text(self._chat.read(completion_ids))

  def completion_ids(self, text: str, *, ended: bool = True) -> list[int]:
    """Ids of a recorded completion; without its end token when it was cut."""
    return self._chat.completion(text, ended=ended)

  def write(self, action: str) -> list[int]:
    """Ids of a completion that says `action` and ends: an expert's words."""
    return self._chat.completion(self.write_text(action))


class TokenDialogue:
  """A conversation in token ids, see `Dialogue`."""

  def __init__(
      self,
      agent: Agent,
      policy: Policy,
      limits: Limits,
      *,
      episode_id: str,
      seed: int,
  ):
    self._agent, self._policy = agent, policy
    self._limits = limits
    self._episode_id, self._seed = episode_id, seed
    self._room = limits.max_context
    self._last: tuple[int, ...] = ()  # ids of the last completion
    # The last observation, the completion that it answers, and the ids of it.
    self._next_ids: tuple[tuple[str, tuple[int, ...]], list[int]] | None = None
    self.transcript = Transcript()

  def count(self, text: str) -> int:
    return self._agent.count(text)

  def fits(self, prompt: Sequence[Message], tokens: int) -> bool:
    ids = self._agent.prompt_ids(prompt)
    return len(ids) + tokens <= self._limits.max_context

  @property
  def overflow(self) -> str:
    return (
        f'has {self._limits.max_context - self._room} tokens and leaves no room'
        f' in a context of {self._limits.max_context}; raise max_context or'
        ' shorten the instructions.'
    )

  async def open(self, prompt: Sequence[Message]) -> None:
    size = sum(len(message.content) for message in prompt)
    ids = await _off_loop(size, lambda: self._agent.prompt_ids(prompt))
    self._room = self._limits.max_context - len(ids)
    # As an observation, a later opening that does not fit is left out.
    if self._room >= 0 or not len(self.transcript):
      self.transcript.begin(ids)

  async def ask(
      self, turn: int, *, most: int | None = None
  ) -> Completion | None:
    if self._room < 1:
      return None
    return await self._policy.generate(
        self.transcript.segment,
        max_new_tokens=min(
            most or self._limits.max_completion_tokens, self._room
        ),
        seed=seeds.derive_seed(self._seed, turn),
        stop_token_ids=self._agent.stop_token_ids,
        rid=f'{self._episode_id}/{turn}',
        routing_key=self._episode_id,
    )

  def read(self, completion: Completion) -> Reading:
    return self._agent.read(completion.tokens)

  def append(self, completion: Completion) -> None:
    self._last = completion.tokens
    self._room -= len(completion.tokens)
    self.transcript.append_sampled(completion)

  async def used(self, observation: str) -> int:
    ids = await self._between(observation)
    return self._limits.max_context - self._room + len(ids)

  async def observe(self, observation: str) -> None:
    ids = await self._between(observation)
    self._room -= len(ids)
    if self._room >= 0:  # what fits is kept for the critic
      self.transcript.append_inserted(ids)

  async def _between(self, observation: str) -> list[int]:
    """Ids of an observation; those that `used` counted need not be made anew."""
    key = observation, self._last
    if self._next_ids is None or self._next_ids[0] != key:
      ids = await _off_loop(
          len(observation), lambda: self._agent.observation_ids(*key)
      )
      self._next_ids = key, ids
    return self._next_ids[1]


async def _off_loop(size: int, tokenize: Callable[[], list[int]]) -> list[int]:
  """Ids of a text of `size` characters; other episodes go on meanwhile."""
  if size < LONG:
    return tokenize()
  return await asyncio.to_thread(tokenize)


def make_agent(
    spec: EnvSpec, tokenizer: Tokenizer, options: AgentOptions
) -> Agent:
  """The agent of a policy in an environment.

  Args:
    spec: of the environment.
    tokenizer: of the policy.
    options: the way of talking.
  """
  instructions = spec.instructions(options.format, options.instructions)
  chosen = formats.find(options.format)
  functions: Functions = ()
  if chosen.tools:
    functions = (*spec.functions, *context_lib.make(options.context).functions)
  told = [function.tool for function in functions]
  chat = ChatFormat(tokenizer, options.template, options.date, told)
  tools = None
  if isinstance(chat.call, NamedCallSyntax):
    tools = formats.named_tools(*chat.call, words=chosen.words)
  elif chat.call is not None:
    tools = formats.tools(*chat.call, words=chosen.words)
  return Agent(
      chat,
      instructions=instructions,
      format=options.format,
      functions=spec.functions,
      tools=tools,
      conversations=spec.conversations,
      context=options.context,
      plan=options.plan,
      reflect=options.reflect,
  )
