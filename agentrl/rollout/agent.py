"""The agent: instructions, chat template and action format of a policy."""

from collections.abc import Sequence
from typing import NamedTuple

from agentrl.envs import actions
from agentrl.envs.functions import Functions
from agentrl.envs.spec import EnvSpec
from agentrl.errors import DataError
from agentrl.rollout.options import AgentOptions
from agentrl.text.chat import ChatFormat
from agentrl.text.tokenizer import Tokenizer
from agentrl.types import Message

# The block of reasoning with which models of Qwen's and DeepSeek's kind begin.
_THINK, _END_THINK = '<think>', '</think>'

# Formats that nothing is written in by chance.
_MARKED = ('react', 'tags', 'fenced', 'function_calling', 'code')


class Reading(NamedTuple):
  """One completion, decoded and parsed."""

  text: str
  action: str
  parse_error: str | None


class Agent:
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
  ):
    """Keeps the parts.

    Args:
      chat: template and tokenizer of the model.
      instructions: system message, or the start of the first user message
        where the template has no system role; left out when empty.
      format: how an action is written; a name that `envs.actions` knows.
      functions: of the environment, for formats in which they are called.
    """
    self._chat = chat
    self._instructions = instructions
    self._format = format
    self._functions = functions

  @property
  def stop_token_ids(self) -> tuple[int, ...]:
    """Ids that end a completion."""
    return self._chat.stop_ids

  def first_messages(self, observation: str) -> tuple[Message, ...]:
    """The conversation before the first completion."""
    if not self._instructions:
      return (Message('user', observation),)
    if not self._chat.has_system:  # a template without such a role
      return (Message('user', f'{self._instructions}\n\n{observation}'),)
    return (
        Message('system', self._instructions),
        Message('user', observation),
    )

  def prompt_ids(self, messages: Sequence[Message]) -> list[int]:
    """Ids of `messages` and of the header that starts a completion."""
    return self._chat.prompt(messages)

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
    return self._chat.observation(observation, ended=ended)

  def read(self, completion_ids: Sequence[int]) -> Reading:
    """Decodes a completion and looks for its action, which no thought holds."""
    text = self._chat.tokenizer.decode(completion_ids)
    action, parse_error = actions.parse(
        self._format, _answer(text), self._functions
    )
    return Reading(text, action, parse_error)

  def check_format(self, completions: Sequence[str]) -> None:
    """Refuses completions most of which have no action in this agent's format.

    In format 'plain', a completion in another format counts as unreadable too:
    `Thought:`, say, is no action.

    Args:
      completions: of one record.

    Raises:
      DataError: names the format that fits, if there is one.
    """
    texts = [_answer(completion) for completion in completions]
    read = {
        name: [
            actions.parse(name, text, self._functions)[1] is None
            for text in texts
        ]
        for name in actions.FORMATS
    }
    if self._format == 'plain':
      others = zip(*(read[name] for name in _MARKED), strict=True)
      read['plain'] = [
          plain and not any(marked)
          for plain, marked in zip(read['plain'], others, strict=True)
      ]
    found = sum(read[self._format])
    if 2 * found >= len(texts):
      return
    best = max(_MARKED, key=lambda name: sum(read[name]))
    fits = 2 * sum(read[best]) >= len(texts)
    raise DataError(
        f'agent.format={self._format!r} finds an action in {found} of its'
        f' {len(texts)} completions'
        + (f'; {best!r} does in {sum(read[best])}' if fits else '')
    )

  def correction(self, parse_error: str) -> str:
    """The observation after a completion without an action.

    The environment is not asked: it would count a step for words that it cannot
    know.
    """
    return f'Your reply was not understood: {parse_error}'

  def completion_ids(self, text: str, *, ended: bool = True) -> list[int]:
    """Ids of a recorded completion; without its end token when it was cut."""
    return self._chat.completion(text, ended=ended)

  def write(self, action: str) -> list[int]:
    """Ids of a completion that says `action` and ends: an expert's words."""
    return self._chat.completion(
        actions.write(self._format, action, self._functions)
    )


def _answer(text: str) -> str:
  """The text after the reasoning that opens a completion; else all of it.

  Reasoning weighs actions up, and so may write several. One that was cut off
  has no answer.
  """
  opened = text.lstrip()
  if not opened.startswith(_THINK):
    return text
  return opened.partition(_END_THINK)[2].lstrip('\n')


def make_agent(
    spec: EnvSpec, tokenizer: Tokenizer, options: AgentOptions
) -> Agent:
  """The agent of a policy in an environment.

  Args:
    spec: of the environment.
    tokenizer: of the policy.
    options: the way of talking.
  """
  return Agent(
      ChatFormat(tokenizer, options.template),
      instructions=spec.instructions(options.format, options.instructions),
      format=options.format,
      functions=spec.functions,
  )
