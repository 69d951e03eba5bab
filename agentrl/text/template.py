"""Renders a chat template: Jinja in a sandbox, as transformers sets it up.

Templates come with downloaded models and are untrusted code.
"""

import datetime
import json
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
  except jinja2.TemplateError as error:
    raise ChatTemplateError(f'The chat template is not Jinja: {error}.') from (
        error
    )

  def render(messages: Sequence[Message]) -> str:
    try:
      return template.render(
          messages=[{'role': m.role, 'content': m.content} for m in messages],
          tools=None,
          documents=None,
          add_generation_prompt=True,
          **special_tokens,
      )
    # What a template may raise beside Jinja's own: it is somebody's program.
    except (jinja2.TemplateError, TypeError, ValueError, LookupError) as error:
      roles = [message.role for message in messages]
      raise ChatTemplateError(
          f'The chat template refuses messages of roles {roles}: {error}.'
      ) from error

  return render
