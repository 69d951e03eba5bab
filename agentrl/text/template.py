"""Renders a chat template: Jinja in a sandbox, as transformers sets it up.

Templates come with downloaded models and are untrusted code. The sandbox keeps
them from files and from Python's objects, not from using up time and memory: a
`for` in a `for` runs for years, and 40 lines of `x = x + x` need a terabyte.
Nothing inside of a process bounds both, so a template that is not ours is tried
in a process of its own first; see `trial`.
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

# Qwen3's, but for what its own does to the reasoning of earlier turns, which it
# deletes: that policy could not have sampled its next turn from what it had read.
# Here every `<think>` block stays where it was written. As with Qwen3's own the
# generation prompt opens none (thinking is on, and the model opens its block
# itself), nor is an empty one added to a message without: a recorded completion
# has the tokens that are learnt, and no others. Who loads an exported folder may
# still say enable_thinking=False, which appends the empty block.
_NO_THOUGHT = "'<think>\\n\\n</think>\\n\\n'"
QWEN3 = CHATML.replace(
    '{% endif %}',
    '{% if enable_thinking is defined and enable_thinking is false %}{{ '
    + _NO_THOUGHT
    + ' }}{% endif %}{% endif %}',
)

# Qwen3 with thinking off: the empty block of the generation prompt, which Qwen3
# reads as that, stays before every completion.
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

# Most that a trial may use. 400 short conversations take a tenth of a second of
# the first and a tenth of the second.
_CPU_S = 10
_MEMORY_BYTES = 2**29
# For a machine so busy that processor time passes slowly.
_WALL_S = 120

# What a template may raise beside Jinja's own: it is somebody's program.
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
  """`{% generation %}` marks completions for trainers; here it only passes."""

  tags = {'generation'}

  def parse(self, parser) -> list[nodes.Node]:
    next(parser.stream)
    return parser.parse_statements(['name:endgeneration'], drop_needle=True)


def compile_template(
    source: str, special_tokens: Mapping[str, str]
) -> Renderer:
  """Makes a function that renders messages and the generation prompt.

  Args:
    source: Jinja; it sees `messages`, `add_generation_prompt`, no tools.
    special_tokens: variables such as `bos_token`.

  Returns:
    A function that raises ChatTemplateError in the template's own words.

  Raises:
    ChatTemplateError: `source` is not Jinja.
  """
  # One date for the whole process: the prompts of a group must be equal.
  started = datetime.datetime.now()

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
  environment.globals['strftime_now'] = started.strftime
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
  """Renders `conversations` where neither time nor memory can run out.

  That is a process of its own under the kernel's limits; one takes a third of a
  second. A template that passes is then rendered in this process. What it says
  of a conversation (that it refuses it, say) does not matter here.

  Raises:
    ChatTemplateError: it went on for ever or grew without bound.
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
    found = f'did not end within {_WALL_S} s'
  else:
    if not done.returncode:
      return
    said = done.stderr.decode('utf-8', 'replace').split('\n')
    found = (
        f'ended its process with status {done.returncode}'
        f' ({" ".join(said[-2:]).strip()[:200]})'
    )
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
      found = f'did not end within {_CPU_S} s of processor time'
    elif done.returncode == _TOO_LARGE:
      found = f'needs more than {_MEMORY_BYTES >> 20} MiB'
  raise ChatTemplateError(
      f'The chat template {found} for {len(conversations)} short conversations.'
  )


# The exit status of a trial that ran out of memory.
_TOO_LARGE = 3


def _try() -> None:
  """What the process of `trial` does."""
  job = json.load(sys.stdin)
  _limit(resource.RLIMIT_CPU, _CPU_S)
  _limit(resource.RLIMIT_CORE, 0)
  if sys.platform == 'linux':  # others refuse it or do not heed it
    _limit(resource.RLIMIT_AS, _MEMORY_BYTES)
  try:
    render = compile_template(job['source'], job['special_tokens'])
  except ChatTemplateError as error:
    _leave(error)
    return
  for conversation in job['conversations']:
    try:
      render([Message(*message) for message in conversation])
    except ChatTemplateError as error:
      _leave(error)


def _limit(kind: int, value: int) -> None:
  _, most = resource.getrlimit(kind)
  if most != resource.RLIM_INFINITY:
    value = min(value, most)
  resource.setrlimit(kind, (value, most))


def _leave(error: ChatTemplateError) -> None:
  if isinstance(error.__cause__, MemoryError):
    sys.exit(_TOO_LARGE)


def _words(error: BaseException) -> str:
  """What happened, from an error that may have no words or many."""
  return f'{str(error) or type(error).__name__:.300}'


if __name__ == '__main__':
  _try()
