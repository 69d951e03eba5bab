"""Append-only rendering of a conversation into token ids.

A policy is trained on the very ids that it sampled, so a later turn must leave
all ids before it alone: the transcript grows, it is never rendered again. A
chat template is a program over whole conversations and promises no such thing
(Qwen3's, for one, deletes the reasoning of past turns). So the template is
probed when a `ChatFormat` is made: what follows a completion has to be

    head + observation + tail

with a `head` (its end token first) and a `tail` that no probe changes. Else the
template is refused; only Qwen3's is replaced, by one of ours. Text of an
environment never becomes a control token.
"""

import functools
from collections.abc import Sequence

from absl import logging

from agentrl.errors import ChatTemplateError
from agentrl.text import template as template_lib
from agentrl.text.tokenizer import Tokenizer
from agentrl.types import Message

# Templates by name, used in place of the tokenizer's own.
TEMPLATES = {
    'chatml': template_lib.CHATML,
    'qwen3': template_lib.QWEN3,
    'qwen3_no_think': template_lib.QWEN3_NO_THINK,
}

# A text; True for the template's own, which may hold control tokens.
_Piece = tuple[str, bool]

_WAY_OUT = "; template='chatml' renders append-only."

# Contents that templates have changed: blanks (trimmed), reasoning (removed), JSON
# (parsed), empty text.
_CONTENTS = (
    'go to the red ball',
    '',
    ' \n blanks around \t\n',
    '<think>\nreasons\n</think>\n\nan answer',
    'no tag opens </think> here',
    '{"name": "f", "arguments": {"x": 1}}',
    '[TOOL_CALLS] <tool_call>\n</tool_call>',
    'Thought:\nI am.\n\nAction:\n{{ messages }} {% if %} \u96ea \U0001f600',
)


class ChatFormat:
  """The ids of a conversation: a prompt, then completions and observations.

  Attributes:
    tokenizer: the tokenizer of all ids.
    source: the template, as Jinja.
    end_id: the token that the template puts after a completion.
    stop_ids: ids on which sampling stops: `end_id` and the tokenizer's ends.
    has_system: True if the template takes a system message.
  """

  def __init__(self, tokenizer: Tokenizer, template: str | None = None):
    """Reads and proves a template.

    Args:
      tokenizer: of the policy.
      template: a name of `TEMPLATES`; None takes the tokenizer's own or,
        without one, ChatML.

    Raises:
      ChatTemplateError: the template cannot be rendered append-only, does not
        end a completion with one control token, or has an unknown name.
    """
    if template is not None and template not in TEMPLATES:
      raise ChatTemplateError(
          f'Unknown chat template {template!r}; known: {", ".join(TEMPLATES)}.'
      )
    self.tokenizer = tokenizer
    own = tokenizer.chat_template
    if template is not None or own is None:
      self._adopt(TEMPLATES[template or 'chatml'])
      return
    try:
      if own not in TEMPLATES.values():
        _try(own, tuple(tokenizer.special_tokens().items()))
      try:
        self._adopt(own)
      except ChatTemplateError:
        if not self._is_qwen3(own):
          raise
        self._adopt(TEMPLATES['qwen3'])
        logging.warning(
            "The model's own chat template deletes the reasoning of earlier"
            " turns, as Qwen3's does; template='qwen3' takes its place, which"
            " keeps it. 'qwen3_no_think' switches reasoning off."
        )
    except ChatTemplateError as error:
      raise ChatTemplateError(
          f'{tokenizer.template_path}: {error}'
          if tokenizer.template_path
          else str(error)
      ) from error

  def _adopt(self, source: str) -> None:
    """Reads and proves a template."""
    self.source = source
    self._render = self._compile(source)
    self._trims = {
        role: self._finds_trim(role) for role in ('user', 'assistant')
    }
    self.has_system = self._takes_system()
    if self.has_system:
      self._trims['system'] = self._finds_trim('system')
    self._head, self._tail = self._boundary()
    self.end_id = self._finds_end()
    self.stop_ids = tuple(dict.fromkeys((self.end_id, *self.tokenizer.eos_ids)))
    self._prove()

  def _compile(self, source: str) -> template_lib.Renderer:
    return template_lib.compile_template(
        source, self.tokenizer.special_tokens()
    )

  def _is_qwen3(self, source: str) -> bool:
    """True for a template that renders as Qwen3's does, tools aside.

    The text is not compared: it has changed several times, and derived models
    have their own. Qwen3's renders as ours if no assistant's message has
    reasoning, and else deletes the reasoning: up to the last closing tag, and
    the line ends behind it. Its generation prompt may open the reasoning, as in
    models that always reason: with ours they write the tag themselves.
    """
    own, ours = map(self._compile, (source, TEMPLATES['qwen3']))

    def without(message: Message) -> Message:
      _, tag, answer = message.content.rpartition('</think>')
      if not tag or message.role != 'assistant':
        return message
      return Message(message.role, answer.lstrip('\n'))

    try:
      return all(
          own(messages).removesuffix('<think>\n')
          == ours([*map(without, messages)])
          for messages in _conversations(has_system=True)
      )
    except ChatTemplateError:
      return False

  def prompt(self, messages: Sequence[Message]) -> list[int]:
    """Ids of the first messages and of the generation prompt.

    Args:
      messages: of roles system, user and assistant; the last is not an
        assistant's.

    Raises:
      ChatTemplateError: the template refuses these roles, or does something
        special with one of these contents.
    """
    if not messages or messages[-1].role == 'assistant':
      roles = [message.role for message in messages]
      raise ChatTemplateError(
          f'A prompt must end with a message to the policy; got roles {roles}.'
      )
    pieces = self._pieces(messages)
    if _join(pieces) != self._render(messages):
      raise ChatTemplateError(
          'The chat template changes the content of a message among'
          f' {[m.content for m in messages]!r}{_WAY_OUT}'
      )
    return self._encode(pieces)

  def observation(self, text: str, *, ended: bool) -> list[int]:
    """Ids that follow a completion, up to the next generation prompt.

    Args:
      text: the observation.
      ended: True if the last sampled id is one of `stop_ids`. False (cut by
        length): the end token comes first. It was not sampled, so it is masked
        like all ids returned here.
    """
    pieces = [(self._head, True), (self._trim('user', text), False)]
    ids = self._encode([*pieces, (self._tail, True)])
    return ids[1:] if ended else ids

  def completion(self, text: str, *, ended: bool = True) -> list[int]:
    """Ids of a completion that was not sampled (an expert's).

    Args:
      text: its content; trimmed where the template trims, as the whole
        conversation would be.
      ended: True if its end token follows.
    """
    ids = self.tokenizer.encode(self._trim('assistant', text))
    return [*ids, self.end_id] if ended else ids

  def _trim(self, role: str, content: str) -> str:
    return content.strip() if self._trims[role] else content

  def _pieces(self, messages: Sequence[Message]) -> list[_Piece]:
    """The rendering, cut into contents and the template's text."""
    marks = _marks(len(messages))
    text = self._render(
        [Message(m.role, mark) for m, mark in zip(messages, marks, strict=True)]
    )
    pieces = []
    for message, mark in zip(messages, marks, strict=True):
      before, found, text = text.partition(mark)
      if not found or mark in text:
        raise ChatTemplateError(
            f'The chat template does not render the {message.role!r} message'
            f' exactly once and in its place{_WAY_OUT}'
        )
      content = self._trim(message.role, message.content)
      pieces += [(before, True), (content, False)]
    return [*pieces, (text, True)]

  def _encode(self, pieces: Sequence[_Piece]) -> list[int]:
    """Ids of the joined pieces, with only the template's control tokens."""
    ids, run = [], ''
    for text, is_template in pieces:
      parts = [(text, None)]
      if is_template:
        parts = self.tokenizer.split_special(text)
      for part, token_id in parts:
        if token_id is None:
          run += part
        else:
          ids += [*self.tokenizer.encode(run), token_id]
          run = ''
    return ids + self.tokenizer.encode(run)

  def _takes_system(self) -> bool:
    try:
      self._render([Message('system', 'x'), Message('user', 'x')])
    except ChatTemplateError:  # such as Gemma's; prompt() raises it again
      return False
    return True

  def _finds_trim(self, role: str) -> bool:
    """True if the template trims the contents of `role`."""
    padded = ' \n x \n '
    conversation = {
        'system': [Message('system', padded), Message('user', 'y')],
        'user': [Message('user', padded)],
        'assistant': [
            Message('user', 'y'),
            Message('assistant', padded),
            Message('user', 'y'),
        ],
    }[role]
    return padded not in self._render(conversation)

  def _boundary(self) -> tuple[str, str]:
    """The template's text before and after an observation."""
    first, completion, observation = _marks(3)
    text = self._render([
        Message('user', first),
        Message('assistant', completion),
        Message('user', observation),
    ])
    _, found, rest = text.partition(completion)
    head, found_too, tail = rest.partition(observation)
    if not (found and found_too) or observation in tail or completion in rest:
      raise ChatTemplateError(
          'The chat template does not render a completion and the message'
          f' after it exactly once and in order{_WAY_OUT}'
      )
    return head, tail

  def _finds_end(self) -> int:
    pieces = self.tokenizer.split_special(self._head)
    if not pieces or pieces[0][1] is None:
      raise ChatTemplateError(
          f'The chat template goes on with {self._head!r} after a completion,'
          ' which does not begin with a special token of this tokenizer.'
          ' ChatML needs <|im_start|> and <|im_end|> as special tokens.'
      )
    return pieces[0][1]

  def _prove(self) -> None:
    """Compares whole renderings with appended ones, over all probes.

    By induction this covers any number of turns: a history that already holds
    completions and observations is a probe like any other.
    """
    for history, completion, observation in _probes(self.has_system):
      so_far = self._render(history)
      whole = self._render([
          *history,
          Message('assistant', completion),
          Message('user', observation),
      ])
      appended = (
          so_far
          + self._trim('assistant', completion)
          + self._head
          + self._trim('user', observation)
          + self._tail
      )
      if whole != appended:
        raise ChatTemplateError(
            'The chat template is not append-only: after'
            f' {len(history)} message(s), with completion {completion!r} and'
            f' observation {observation!r} it renders'
            f' {_difference(whole, appended)}{_WAY_OUT}'
        )
      self.prompt(history)


def _marks(count: int) -> list[str]:
  """Contents that occur nowhere else: private-use characters around an index."""
  return [f'\ue0f0{i}\ue0f1' for i in range(count)]


def _join(pieces: Sequence[_Piece]) -> str:
  return ''.join(text for text, _ in pieces)


@functools.lru_cache(maxsize=16)
def _try(source: str, special_tokens: tuple[tuple[str, str], ...]) -> None:
  """See `template.trial`; once for each template of a process."""
  probes = list(_conversations(has_system=True))
  template_lib.trial(source, dict(special_tokens), probes)


def _conversations(has_system: bool):
  """Yields the conversations of each probe: its history, and all of it."""
  for history, completion, observation in _probes(has_system):
    yield history
    yield [
        *history,
        Message('assistant', completion),
        Message('user', observation),
    ]


def _probes(has_system: bool):
  """Yields (history, completion, observation)."""
  plain = _CONTENTS[0]
  user = lambda content: Message('user', content)
  assistant = lambda content: Message('assistant', content)
  histories = [
      *([user(content)] for content in _CONTENTS),
      [user(plain), assistant('one'), user('two')],
  ]
  for content in _CONTENTS:
    histories.append([
        user(plain),
        assistant(content),
        user('one'),
        assistant('two'),
        user(content),
    ])
  if has_system:
    histories += [
        [Message('system', content), *history]
        for content in ('Be brief.', '', ' padded ')
        for history in (histories[0], histories[-1])
    ]
  for history in histories:
    for content in _CONTENTS:
      yield history, content, plain
      yield history, plain, content


def _difference(whole: str, appended: str) -> str:
  """The place where two renderings first differ, as a message."""
  same = next(
      (i for i, (a, b) in enumerate(zip(whole, appended)) if a != b),  # noqa: B905
      min(len(whole), len(appended)),
  )
  start = max(0, same - 20)
  return (
      f'{whole[start : same + 40]!r} where appending gives'
      f' {appended[start : same + 40]!r}'
  )
