"""Renders a chat template: Jinja in a sandbox, as transformers sets it up.

Templates come with downloaded models and are untrusted code. The sandbox keeps
them from files and from Python's objects, not from using up time and memory: a
`for` in a `for` runs for years, and 40 lines of `x = x + x` need a terabyte.
Both cannot be bounded within the process, so a template that is not ours is
rendered in a process of its own first; see `trial`.
"""

import datetime
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jinja2
import jinja2.sandbox
from jinja2 import ext, nodes

from agentrl.errors import ChatTemplateError
from agentrl.types import Message

# Tools as Qwen's and Hermes' models were taught them: in the system message, and an
# answer as a message of the user.
_TOOLS = (
    "{% if tools %}{{ '<|im_start|>system\\n' }}{% if messages[0].role =="
    " 'system' %}{{ messages[0].content + '\\n\\n' }}{% endif %}{{ '#"
    ' Tools\\n\\nYou may call one or more functions to assist with the user'
    ' query.\\n\\nYou are provided with function signatures within'
    " <tools></tools> XML tags:\\n<tools>' }}{% for tool in tools %}{{ '\\n' +"
    " (tool | tojson) }}{% endfor %}{{ '\\n</tools>\\n\\nFor each function"
    ' call, return a json object with function name and arguments within'
    ' <tool_call></tool_call> XML tags:\\n<tool_call>\\n{"name":'
    ' <function-name>, "arguments":'
    " <args-json-object>}\\n</tool_call><|im_end|>\\n' }}{% endif %}"
)


def _chatml(before: str = '', opening: str = '') -> str:
  """ChatML without a default system prompt.

  Args:
    before: Jinja that stands before the content of an assistant's message.
    opening: Jinja behind the generation prompt.
  """
  return (
      _TOOLS
      + '{% for message in messages %}'
      "{% if message.role == 'tool' %}"
      "{{ '<|im_start|>user\\n<tool_response>\\n' + message.content"
      " + '\\n</tool_response><|im_end|>\\n' }}"
      "{% elif not (tools and loop.first and message.role == 'system') %}"
      "{{ '<|im_start|>' + message.role + '\\n' }}"
      + (
          "{% if message.role == 'assistant' %}" + before + '{% endif %}'
          if before
          else ''
      )
      + "{{ message.content or '' }}"
      '{% for call in message.tool_calls or [] %}'
      "{{ ('\\n' if message.content or not loop.first else '')"
      ' + \'<tool_call>\\n{"name": "\' + call.function.name'
      ' + \'", "arguments": \' + (call.function.arguments | tojson)'
      " + '}\\n</tool_call>' }}{% endfor %}"
      "{{ '<|im_end|>\\n' }}{% endif %}{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}"
      + opening
      + '{% endif %}'
  )


CHATML = _chatml()

# Qwen3's template, except that the reasoning of earlier turns stays: Qwen3's own
# deletes it, and such a prompt is not the one that the policy went on from. As in
# Qwen3's own the generation prompt opens no `<think>` block (thinking is on, and
# the model opens its block itself), and no empty block is added to a message
# without one: a recorded completion has exactly the tokens that are learnt. A
# caller of an exported folder may still pass enable_thinking=False, which appends
# the empty block.
_NO_THOUGHT = "{{ '<think>\\n\\n</think>\\n\\n' }}"
QWEN3 = _chatml(
    opening='{% if enable_thinking is defined and enable_thinking is false %}'
    + _NO_THOUGHT
    + '{% endif %}'
)

# Qwen3 with thinking off: the generation prompt's empty block, Qwen3's sign for
# it, stays before every completion.
QWEN3_NO_THINK = _chatml(before=_NO_THOUGHT, opening=_NO_THOUGHT)

# Limits of a trial. 400 short conversations take 0.1 s of processor time and a
# tenth of the memory.
_CPU_S = 10
_MEMORY_BYTES = 2**29
# Wall time, for a busy machine.
_WALL_S = 120

# Errors of templates, Jinja's own and others: a template is a program.
_RAISED = (
    jinja2.TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)

# Renders messages and the generation prompt. A mapping is a message as templates have
# it, such as one with `tool_calls`.
Renderer = Callable[[Sequence[Message | Mapping[str, Any]]], str]
Tools = Sequence[Mapping[str, Any]]  # as OpenAI's API has them


class _Generation(ext.Extension):
  """`{% generation %}`, which marks completions for trainers; ignored here."""

  tags = {'generation'}

  def parse(self, parser) -> list[nodes.Node]:
    next(parser.stream)
    return parser.parse_statements(['name:endgeneration'], drop_needle=True)


def compile_template(
    source: str,
    special_tokens: Mapping[str, str],
    date: datetime.date | None = None,
    tools: Tools = (),
) -> Renderer:
  """A function that renders messages and the generation prompt.

  Args:
    source: Jinja with the variables `messages`, `tools` and `add_generation_prompt`.
    special_tokens: variables such as `bos_token`.
    date: the day, at midnight, that `strftime_now` formats; None: now.
    tools: that the policy may call.

  Returns:
    The function, which raises ChatTemplateError with the template's message.

  Raises:
    ChatTemplateError: `source` is not Jinja.
  """
  # One moment for the whole process: the prompts of a group must be equal.
  moment = datetime.datetime.now()
  if date is not None:
    moment = datetime.datetime.combine(date, datetime.time())

  def raise_exception(message):
    raise jinja2.TemplateError(message)

  def to_json(value, ensure_ascii=False, **options):
    return json.dumps(value, ensure_ascii=ensure_ascii, **options)

  environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
      trim_blocks=True,
      lstrip_blocks=True,
      extensions=[_Generation, ext.loopcontrols],
  )
  environment.filters['tojson'] = to_json  # Jinja's own escapes HTML
  environment.globals['raise_exception'] = raise_exception
  environment.globals['strftime_now'] = moment.strftime
  try:
    template = environment.from_string(source)
  except _RAISED as error:
    raise ChatTemplateError(
        f'The chat template is not Jinja: {_words(error)}.'
    ) from error

  def render(messages: Sequence[Message | Mapping[str, Any]]) -> str:
    try:
      return template.render(
          messages=[_plain(message) for message in messages],
          tools=[dict(tool) for tool in tools] or None,
          documents=None,
          add_generation_prompt=True,
          **special_tokens,
      )
    except _RAISED as error:
      roles = [_plain(message)['role'] for message in messages]
      raise ChatTemplateError(
          f'The chat template refuses messages of roles {roles}:'
          f' {_words(error)}.'
      ) from error

  return render


def _plain(message: Message | Mapping[str, Any]) -> dict[str, Any]:
  """A message as templates have it."""
  if isinstance(message, Message):
    return {'role': message.role, 'content': message.content}
  return dict(message)


def trial(
    source: str,
    special_tokens: Mapping[str, str],
    conversations: Sequence[Sequence[Message]],
    tools: Tools = (),
) -> None:
  """Renders `conversations` in a process with limited time and memory.

  The kernel limits it; the process takes a third of a second. A template that
  passes is then rendered in this process. Errors of rendering, such as a refused
  role, are ignored here.

  Raises:
    ChatTemplateError: the template exceeded the time or the memory.
  """
  job = dict(
      source=source,
      special_tokens=dict(special_tokens),
      conversations=[[(m.role, m.content) for m in c] for c in conversations],
      tools=list(tools),
  )
  root = str(pathlib.Path(__file__).parents[2])
  try:
    done = subprocess.run(
        [sys.executable, '-m', __name__],
        input=json.dumps(job).encode(),
        capture_output=True,
        env=os.environ | {'PYTHONPATH': os.pathsep.join([root, *sys.path])},
        timeout=_WALL_S,
        check=False,
    )
  except subprocess.TimeoutExpired:
    failure = f'did not end within {_WALL_S} s'
  else:
    if not done.returncode:
      return
    lines = done.stderr.decode('utf-8', 'replace').split('\n')
    failure = (
        f'ended its process with status {done.returncode}'
        f' ({" ".join(lines[-2:]).strip()[:200]})'
    )
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
      failure = f'did not end within {_CPU_S} s of processor time'
    elif done.returncode == _TOO_LARGE:
      failure = f'needs more than {_MEMORY_BYTES >> 20} MiB'
  raise ChatTemplateError(
      f'The chat template {failure} for {len(conversations)} short'
      ' conversations.'
  )


# The exit status of a trial that ran out of memory.
_TOO_LARGE = 3


def _try() -> None:
  """Entry point of the process that `trial` starts."""
  job = json.load(sys.stdin)
  _limit(resource.RLIMIT_CPU, _CPU_S)
  _limit(resource.RLIMIT_CORE, 0)
  if sys.platform == 'linux':  # others refuse or ignore it
    _limit(resource.RLIMIT_AS, _MEMORY_BYTES)
  render = _attempt(
      compile_template,
      job['source'],
      job['special_tokens'],
      None,
      job['tools'],
  )
  for conversation in job['conversations'] if render else ():
    _attempt(render, [Message(*message) for message in conversation])


def _attempt(call: Callable[..., Any], *args: Any) -> Any:
  """The result of a call, or None; ends the process if memory runs out."""
  try:
    return call(*args)
  except ChatTemplateError as error:
    if isinstance(error.__cause__, MemoryError):
      sys.exit(_TOO_LARGE)
    return None


def _limit(kind: int, value: int) -> None:
  _, most = resource.getrlimit(kind)
  if most != resource.RLIM_INFINITY:
    value = min(value, most)
  resource.setrlimit(kind, (value, most))


def _words(error: BaseException) -> str:
  """An error's message, cut; its type if the message is empty."""
  return f'{str(error) or type(error).__name__:.300}'


if __name__ == '__main__':
  _try()
