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

# ChatML without a default system prompt.
CHATML = (
    '{% for message in messages %}'
    "{{ '<|im_start|>' + message.role + '\\n' + message.content"
    " + '<|im_end|>\\n' }}"
    '{% endfor %}'
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)

# Qwen3's template, except that the reasoning of earlier turns stays: Qwen3's own
# deletes it, and such a prompt is not the one that the policy went on from. As in
# Qwen3's own the generation prompt opens no `<think>` block (thinking is on, and
# the model opens its block itself), and no empty block is added to a message
# without one: a recorded completion has exactly the tokens that are learnt. A
# caller of an exported folder may still pass enable_thinking=False, which appends
# the empty block.
_NO_THOUGHT = "'<think>\\n\\n</think>\\n\\n'"
QWEN3 = CHATML.replace(
    '{% endif %}',
    '{% if enable_thinking is defined and enable_thinking is false %}{{ '
    + _NO_THOUGHT
    + ' }}{% endif %}{% endif %}',
)

# Qwen3 with thinking off: the generation prompt's empty block, Qwen3's sign for
# it, stays before every completion.
QWEN3_NO_THINK = (
    '{% for message in messages %}'
    "{{ '<|im_start|>' + message.role + '\\n' }}"
    "{% if message.role == 'assistant' %}{{ "
    + _NO_THOUGHT
    + ' }}{% endif %}'
    "{{ message.content + '<|im_end|>\\n' }}"
    '{% endfor %}'
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' + "
    + _NO_THOUGHT
    + ' }}{% endif %}'
)

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

# Renders messages and the generation prompt.
Renderer = Callable[[Sequence[Message]], str]


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
) -> Renderer:
  """A function that renders messages and the generation prompt.

  Args:
    source: Jinja with the variables `messages` and `add_generation_prompt`, and
      without tools.
    special_tokens: variables such as `bos_token`.
    date: the day, at midnight, that `strftime_now` formats; None: now.

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

  def render(messages: Sequence[Message]) -> str:
    try:
      return template.render(
          messages=[{'role': m.role, 'content': m.content} for m in messages],
          tools=None,
          documents=None,
          add_generation_prompt=True,
          **special_tokens,
      )
    except _RAISED as error:
      roles = [message.role for message in messages]
      raise ChatTemplateError(
          f'The chat template refuses messages of roles {roles}:'
          f' {_words(error)}.'
      ) from error

  return render


def trial(
    source: str,
    special_tokens: Mapping[str, str],
    conversations: Sequence[Sequence[Message]],
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
  render = _attempt(compile_template, job['source'], job['special_tokens'])
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
