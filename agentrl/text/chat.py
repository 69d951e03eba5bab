"""Append-only rendering of a conversation into token ids.

A policy is trained on the very ids that it sampled, so a later turn must leave
all ids before it alone: the transcript grows, it is never rendered again. A
chat template is a program over whole conversations and promises no such thing
(Qwen3's, for one, deletes the reasoning of past turns). So the template is
probed when a `ChatFormat` is made: what follows a generation prompt has to be

    lead + completion + head + observation + tail

with a `head` (its end token first, but for blanks) and a `tail` that no probe
changes, and a `lead` that the policy writes itself: blanks (Llama 2's) or the
channel of a message (our harmony's, see `harmony`). Else the template is refused; only
Qwen3's is replaced, by one of ours.

Equal texts are not equal ids: encode(a + b) need not be encode(a) + encode(b),
since a tokenizer may mark the first word of a text, or join the end of a header
to the word after it. So each part is encoded as it stands in the conversation,
and the probes compare ids: those of the appended parts with those of the whole
rendering, which are transformers' `apply_chat_template(tokenize=True)`.

Text of an environment never becomes a control token. Those are the ones that the
tokenizer marks special, and all others with which the template sets messages apart:
a file need not mark them (`<|im_start|>` of some ChatML models, the roles of
DeepSeek's). Tags of reasoning and of calls stay text, since the policy writes them.

Where the policy calls tools, the template is given their schemas, observations are
answers of tools (messages of the user where a template changes those), and how a call
is written is read off a conversation with one. In harmony an answer begins with the
name of the function that was called: `called` reads it off the ids of the completion,
and what follows one without a call is a message of the user.
"""

import datetime
import functools
import itertools
import json
import re
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

from absl import logging

from agentrl.errors import ChatTemplateError
from agentrl.text import (
    calls,
    harmony,
    harmony_template,
    probes,
    reasoning,
    template as template_lib,
)
from agentrl.text.tokenizer import Tokenizer
from agentrl.types import Message

# Templates by name, used in place of the tokenizer's own.
TEMPLATES = {
    'chatml': template_lib.CHATML,
    'qwen3': template_lib.QWEN3,
    'qwen3_no_think': template_lib.QWEN3_NO_THINK,
    'harmony': harmony_template.HARMONY,
    'harmony_no_think': harmony_template.HARMONY_NO_THINK,
}

# A text; True for the template's own, which may hold control tokens.
_Piece = tuple[str, bool]
# A message as a template has it: its role, and its texts by the names of their fields.
_Fields = tuple[str, dict[str, str]]

# An added token that is a mark and no word or blanks: `<|im_start|>`, `[INST]`.
_MARK = re.compile(r'[^\w\s].*\w.*[^\w\s]', re.DOTALL)

# Roles of messages whose frames are kept.
_FRAMES = 64


class ChatFormat:
  """The ids of a conversation: a prompt, then completions and observations.

  Attributes:
    tokenizer: the tokenizer of all ids, the template's control tokens marked.
    source: the template, as Jinja.
    end_id: the token that the template puts after a completion.
    stop_ids: ids on which sampling stops: `end_id` and the tokenizer's ends.
    has_system: True if the template takes a system message.
    call: how it writes calls; None without tools.
  """

  def __init__(
      self,
      tokenizer: Tokenizer,
      template: str | None = None,
      date: str | None = None,
      tools: template_lib.Tools = (),
  ):
    """Reads and proves a template.

    Args:
      tokenizer: of the policy.
      template: a name of `TEMPLATES`; None takes the tokenizer's own or,
        without one, ChatML.
      date: the day that the template is told, as YYYY-MM-DD; None: today.
      tools: that the policy may call, as OpenAI's API has them.

    Raises:
      ChatTemplateError: the template cannot be rendered append-only, does not
        end a completion with one control token, or has an unknown name; or the
        tokenizer has no boundary between tokens where a completion begins; or
        the template has no place for tools, or no calls that are JSON.
    """
    if template is not None and template not in TEMPLATES:
      raise ChatTemplateError(
          f'Unknown chat template {template!r}; known: {", ".join(TEMPLATES)}.'
      )
    self.tokenizer = self._given = tokenizer
    self._date = datetime.date.fromisoformat(date) if date else None
    self._tools = tuple(tools)
    has_channels = tokenizer.token_to_id(harmony.CHANNEL) is not None
    self._other = 'chatml'
    if has_channels:
      self._other = 'harmony' if self._tools else 'harmony_no_think'
    self._way_out = f'; template={self._other!r} renders append-only.'
    self.call: calls.Syntax | None = None
    own = tokenizer.chat_template
    if template is not None or own is None:
      self._adopt(TEMPLATES[template or 'chatml'])
      return
    try:
      if own not in TEMPLATES.values():
        special = tuple(tokenizer.special_tokens().items())
        _try(own, special, json.dumps(self._tools))
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
    self.tokenizer = self._given.marking(self._marks(source))
    if not self._tools:
      self._adopt_with(source, 'user')
      return
    self._check_told(source)
    try:
      self._adopt_with(source, 'tool')
    except ChatTemplateError:
      # Such as Llama's, which writes an answer as JSON, or one that wants an id.
      self._adopt_with(source, 'user')
    self.call = calls.find(
        self._compile(source), self.tokenizer, self._names_answers
    )

  def _adopt_with(self, source: str, role: str) -> None:
    """Reads and proves a template in which observations have this role."""
    self.source = source
    render = self._compile(source)
    self._plain = lambda shaped: render([_message(*x) for x in shaped])
    self._answers, self._lead = role, ''
    self._render = lambda messages: self._plain(self._shaped(messages))
    self._frame = functools.lru_cache(maxsize=_FRAMES)(self._find_frame)
    self._trims = {
        role: self._finds_trim(role) for role in ('user', 'assistant')
    }
    self.has_system = self._takes_system()
    if self.has_system:
      self._trims['system'] = self._finds_trim('system')
    self._lead, head, self._tail = self._boundary()
    self._trail, self._end, self.end_id = self._finds_end(head)
    self._head = head.removeprefix(self._trail)
    self._header = self._finds_header()
    ends = (self.end_id, *self.tokenizer.eos_ids)
    if self.has_channels:
      call = self.tokenizer.token_to_id(harmony.CALL)
      if call is None and self._tools:
        raise ChatTemplateError(
            f'The tokenizer has no token {harmony.CALL!r}, which ends a call.'
        )
      ends += () if call is None else (call,)
    self.stop_ids = tuple(dict.fromkeys(ends))
    self._prove()

  def _compile(self, source: str) -> template_lib.Renderer:
    return template_lib.compile_template(
        source, self.tokenizer.special_tokens(), self._date, self._tools
    )

  def _marks(self, source: str) -> set[int]:
    """Ids of the added tokens with which a template sets messages apart.

    It is told of no tools here: the words that explain them have the tags of calls.
    """
    render = template_lib.compile_template(
        source, self._given.special_tokens(), self._date
    )
    answers = ('user', 'tool') if self._tools else ('user',)
    found: dict[str, int] = {}
    for start, answer in itertools.product(((), ('system',)), answers):
      roles = (*start, 'user', 'assistant', answer)
      try:
        text = render([Message(role, 'x') for role in roles])
      except ChatTemplateError:  # it has no such role
        continue
      found |= self._given.added_in(text)
    return {
        token_id
        for token, token_id in found.items()
        if _MARK.fullmatch(token) and not reasoning.is_tag(token)
    }

  def _check_told(self, source: str) -> None:
    """Refuses a template that has no place for tools."""
    text = self._compile(source)([Message('user', 'x')])
    names = [tool['function']['name'] for tool in self._tools]
    missing = [name for name in names if name not in text]
    if missing:
      raise ChatTemplateError(
          f'The chat template does not name the tool {missing[0]!r}: it has no'
          " place for tools. agent.format='function_calling' explains them in"
          f' the instructions, and agent.template={self._other!r} has a place.'
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
          for messages in probes.conversations(has_system=True)
      )
    except ChatTemplateError:
      return False

  def prompt(
      self, messages: Sequence[Message], *, as_is: bool = False
  ) -> list[int]:
    """Ids of the first messages and of the generation prompt.

    Args:
      messages: of roles system, user and assistant; the last is not an
        assistant's.
      as_is: answers of tools have a role of their own, 'tool'. False: where there
        are tools, what the user says after the policy is one.

    Raises:
      ChatTemplateError: the template refuses these roles, or does something
        special with one of these contents.
    """
    if not messages or messages[-1].role == 'assistant':
      roles = [message.role for message in messages]
      raise ChatTemplateError(
          f'A prompt must end with a message to the policy; got roles {roles}.'
      )
    return self.tokenizer.encode_pieces(
        self._pieces(self._shaped(messages, as_is))
    )

  def observation(
      self, text: str, *, ended: bool, called: str | None = None
  ) -> list[int]:
    """Ids that follow a completion, up to the next generation prompt.

    Args:
      text: the observation.
      ended: True if the last sampled id is one of `stop_ids`. False (cut by
        length): the end token comes first. It was not sampled, so it is masked
        like all ids returned here.
      called: the tool that it is the answer of, see `called`.
    """
    ids = self.tokenizer.encode_pieces(
        [
            *self._heads(called),
            (self._trim('user', text), False),
            (self._tail, True),
        ],
        inside=True,
    )
    if ended:  # the head begins with the end token
      return ids[1:]
    return self._encode_inside(*self._ends(called)) + ids[1:]

  def called(self, ids: Sequence[int]) -> str | None:
    """The tool whose name is written before its answer to a completion.

    None: the completion calls none, or the template does not name it there.
    """
    if not self._names_answers:
      return None
    return harmony.called(self.tokenizer.decode_pieces(ids))

  def completion(self, text: str, *, ended: bool = True) -> list[int]:
    """Ids of a completion that was not sampled (an expert's).

    Args:
      text: its content; trimmed where the template trims, as the whole
        conversation would be.
      ended: True if its end token follows.
    """
    pieces, called = self._said(text)
    if ended:
      pieces = [*pieces, *self._ends(called)]
    # In context: a tokenizer may mark the first word of a text, which this is not.
    header = self._encode_inside((self._header, True))
    ids = self._encode_inside((self._header, True), *pieces)
    if ids[: len(header)] == header:
      return ids[len(header) :]
    # A token of the whole would reach into the header, such as two line ends.
    # The policy cannot sample it: the header is there before it begins.
    return self._encode_inside(*pieces)

  def read(self, ids: Sequence[int]) -> str:
    """The text of a completion, its reasoning in `<think>` tags."""
    if not self.has_channels:
      return self.tokenizer.decode(ids)
    pieces = self.tokenizer.decode_pieces(ids)
    return harmony.read(pieces, calls=self._names_answers)

  @property
  def has_channels(self) -> bool:
    """True if the policy writes messages of several channels."""
    return self._lead.startswith(harmony.CHANNEL)

  @property
  def _names_answers(self) -> bool:
    """True if an answer of a tool begins with the tool's name."""
    return self.has_channels and bool(self._tools)

  def _said(self, text: str) -> tuple[list[_Piece], str | None]:
    """A completion without its end, and the tool that it calls; see `called`."""
    if not self.has_channels:
      return [(self._lead + self._trim('assistant', text), False)], None
    said = harmony.split(text, calls=self._names_answers)
    return said.pieces(), said.call and said.call[0]

  def _ends(self, called: str | None) -> list[_Piece]:
    """The end of a completion: blanks, and the end token."""
    end = self._end if called is None else harmony.CALL
    return [(self._trail + end, True)]

  def _heads(self, called: str | None) -> list[_Piece]:
    """The template's text from the end token to an observation."""
    return [(self._head, True)] if called is None else harmony.answered(called)

  def _shaped(
      self, messages: Sequence[Message], as_is: bool = False
  ) -> list[_Fields]:
    """The messages as the template has them.

    Args:
      messages: of a conversation.
      as_is: see `prompt`.
    """
    shaped: list[_Fields] = []
    called: str | None = None
    is_answer = False  # of what the policy said
    for message in messages:
      role, content = message.role, message.content
      fields = {'content': content}
      if role == 'assistant':
        is_answer = not as_is
        if self.has_channels:
          said = harmony.split(content, calls=self._names_answers)
          fields, called = said.fields, said.call and said.call[0]
      elif role == 'tool' or (role == 'user' and is_answer):
        role = self._answers if called is None else 'tool'
        if called is not None:
          fields = {'name': called, 'content': content}
      shaped.append((role, fields))
    return shaped

  def _trim(self, role: str, content: str) -> str:
    return content.strip() if self._trims[role] else content

  def _encode_inside(self, *pieces: _Piece) -> list[int]:
    """Ids of pieces that follow a control token."""
    return self.tokenizer.encode_pieces(pieces, inside=True)

  def _pieces(self, messages: Sequence[_Fields]) -> list[_Piece]:
    """The rendering, cut into contents and the template's text."""
    outline = tuple((role, tuple(fields)) for role, fields in messages)
    first, *frame = self._frame(outline)
    contents = [text for _, fields in messages for text in fields.values()]
    text = self._plain(messages)
    pieces = [(first, True)]
    rest = text.removeprefix(first)
    for raw, after in zip(contents, frame, strict=True):
      trimmed = (raw, raw.rstrip(), raw.lstrip(), raw.strip())
      content = next((x for x in trimmed if rest.startswith(x + after)), None)
      if content is None:
        break
      rest = rest[len(content) + len(after) :]
      pieces += [(content, False), (after, True)]
    if _joined(*pieces) != text:
      raise ChatTemplateError(
          'The chat template changes the content of a message among'
          f' {reprlib.repr(contents)}{self._way_out}'
      )
    return pieces

  def _find_frame(
      self, outline: tuple[tuple[str, tuple[str, ...]], ...]
  ) -> list[str]:
    """The template's text before, between and after the texts of messages.

    Args:
      outline: roles, and names of fields.
    """
    marks = probes.marks(sum(len(names) for _, names in outline))
    left = iter(marks)
    text = self._plain([
        (role, {name: next(left) for name in names}) for role, names in outline
    ])
    roles = [role for role, names in outline for _ in names]
    frame = []
    for role, mark in zip(roles, marks, strict=True):
      before, match, text = text.partition(mark)
      if not match or mark in text:
        raise ChatTemplateError(
            f'The chat template does not render the {role!r} message'
            f' exactly once and in its place{self._way_out}'
        )
      frame.append(before)
    return [*frame, text]

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

  def _boundary(self) -> tuple[str, str, str]:
    """The template's text before a completion, behind it, after an observation.

    The first of them stands between the generation prompt and the completion.
    """
    first, completion, observation = probes.marks(3)
    history = [Message('user', first)]
    text = self._render([
        *history,
        Message('assistant', completion),
        Message('user', observation),
    ])
    before, match, rest = text.partition(completion)
    head, next_match, tail = rest.partition(observation)
    if not (match and next_match) or observation in tail or completion in rest:
      raise ChatTemplateError(
          'The chat template does not render a completion and the message'
          f' after it exactly once and in order{self._way_out}'
      )
    lead = before.removeprefix(self._render(history))
    # A channel, which the policy opens itself; not where another token than was
    # sampled ends its message.
    kept = not lead.strip() or (
        lead.startswith(harmony.CHANNEL) and head.startswith(harmony.RETURN)
    )
    return (lead if kept else ''), head, tail

  def _finds_end(self, head: str) -> tuple[str, str, int]:
    """The blanks between a completion and its end token, that token and its id.

    Args:
      head: the template's text between a completion and an observation.
    """
    pieces = self.tokenizer.split_special(head)
    blanks = ''
    if pieces and pieces[0][1] is None and not pieces[0][0].strip():
      blanks = pieces.pop(0)[0]
    token, token_id = pieces[0] if pieces else ('', None)
    if token_id is None:
      raise ChatTemplateError(
          f'The chat template goes on with {head!r} after a completion,'
          ' which does not begin with a special token of this tokenizer.'
          ' ChatML needs <|im_start|> and <|im_end|> as added tokens.'
      )
    return blanks, token, token_id

  def _finds_header(self) -> str:
    """The generation prompt from its last control token on."""
    header = ''
    for text, token_id in reversed(self.tokenizer.split_special(self._tail)):
      header = text + header
      if token_id is not None:
        break
    return header

  def _prove(self) -> None:
    """Compares whole renderings with appended ones, over all probes.

    By induction this covers any number of turns: a history that already holds
    completions and observations is a probe like any other, and what follows an
    end token does not depend on the ids before it.
    """
    self._prove_header()
    completion_ids = functools.cache(self.completion)
    observation_ids = functools.cache(
        functools.partial(self.observation, ended=True)
    )
    for history, answers in probes.histories(self.has_system, self._probed()):
      so_far = self._render(history)
      wholes = []
      for completion, observation in answers:
        added = [Message('assistant', completion), Message('user', observation)]
        wholes.append(self._render([*history, *added]))
        said, called = self._said(completion)
        appended = so_far + _joined(
            *said,
            (self._trail, True),
            *self._heads(called),
            (self._trim('user', observation), False),
            (self._tail, True),
        )
        if wholes[-1] != appended:
          raise ChatTemplateError(
              'The chat template is not append-only: after'
              f' {len(history)} message(s), with completion {completion!r} and'
              f' observation {observation!r} it renders'
              f' {probes.difference(wholes[-1], appended)}{self._way_out}'
          )
      prompt = self.prompt(history)
      self._prove_ids(history, so_far, prompt)
      for answer, whole in zip(answers, wholes, strict=True):
        # Blanks at the start may join the header's: see `completion`.
        content = self._trim('assistant', answer[0])
        if content == content.lstrip():
          first = completion_ids(answer[0])
          then = observation_ids(answer[1], called=self.called(first))
          added = [Message('assistant', content), Message('user', answer[1])]
          ids = [*prompt, *first, *then]
          self._prove_ids([*history, *added], whole, ids)

  def _probed(self) -> Sequence[str]:
    """Contents to probe with: those of all templates, and calls."""
    if not self._names_answers:
      return probes.CONTENTS
    before, between, after = harmony.CALL_TEXTS
    call = f'{before}f{between}{{"x": "<think>"}}{after}'
    return (*probes.CONTENTS, call, f'<think>\nreasons\n</think>\n\n{call}')

  def _prove_ids(
      self, messages: Sequence[Message], text: str, ids: Sequence[int]
  ) -> None:
    """Compares ids with those of a whole rendering.

    Not where a content spells a control token: it becomes one in the whole.
    """
    texts = (x for _, fields in self._shaped(messages) for x in fields.values())
    if any(map(self._spells_control, texts)):
      return
    whole = self.tokenizer.encode(text, allow_special=True)
    if ids == whole:
      return
    at = next(
        (i for i, (a, b) in enumerate(zip(whole, ids)) if a != b),  # noqa: B905
        min(len(whole), len(ids)),
    )
    shown = lambda tokens: [
        self.tokenizer.id_to_token(i) for i in tokens[max(0, at - 2) : at + 4]
    ]
    raise self._no_boundary(
        f'a conversation of {len(messages)} message(s) has the tokens'
        f' {shown(whole)}, and {shown(ids)} in parts'
    )

  def _prove_header(self) -> None:
    """Looks for words that would be one token with the end of the header.

    The policy cannot sample them: the header is there before it begins.
    """
    header = self._encode_inside((self._header, True))
    for more in self.tokenizer.continuations(header):
      if not more.startswith(self._lead):
        continue
      # Other characters may be joined now and then: see `completion`.
      if more[len(self._lead) :][:1].isalnum():
        ids = self._encode_inside((self._header, True), (more, False))
        if ids[: len(header)] != header:
          raise self._no_boundary(f'{more!r} becomes one token with its end')

  def _no_boundary(self, detail: str) -> ChatTemplateError:
    return ChatTemplateError(
        'The tokenizer has no boundary between tokens where the chat template'
        f' needs one, as behind its header {self._header!r}: {detail}. Use a'
        ' template whose header ends with a special token, as that of'
        f' template={self._other!r} may, and give special tokens'
        ' normalized=false.'
    )

  def _spells_control(self, text: str) -> bool:
    return any(i is not None for _, i in self.tokenizer.split_special(text))


@functools.lru_cache(maxsize=16)
def _try(
    source: str, special_tokens: tuple[tuple[str, str], ...], tools: str
) -> None:
  """See `template.trial`; once for each template of a process."""
  conversations = list(probes.conversations(has_system=True))
  template_lib.trial(
      source, dict(special_tokens), conversations, json.loads(tools)
  )


def _message(role: str, fields: Mapping[str, str]) -> Mapping[str, Any]:
  """A message as OpenAI's API has it."""
  if 'function' not in fields:
    return {'role': role, **fields}
  rest = {k: v for k, v in fields.items() if k not in ('function', 'arguments')}
  call = {'name': fields['function'], 'arguments': fields['arguments']}
  calls = [{'type': 'function', 'function': call}]
  return {'role': role, 'content': '', **rest, 'tool_calls': calls}


def _joined(*pieces: _Piece) -> str:
  return ''.join(text for text, _ in pieces)
