"""gpt-oss's chat template, harmony, but that it rewrites no earlier turn.

The model's own deletes the reasoning of earlier turns, and ends their answers by
another token than was sampled. Messages have the fields that it reads too: `thinking`
beside `content`, and `tool_calls`. Functions are told as openai-harmony 0.0.8 writes
them, in the manner of TypeScript; alternatives (`oneOf`) as the model's own template.
"""

# The type of a schema: `string[]`, `"a" | "b"`, or an object with a line a property.
_TYPE = (
    "{% macro type_of(schema, indent) %}"
    "{% set type = schema.get('type') %}"
    "{% if schema.get('oneOf') %}{% for variant in schema['oneOf'] %}"
    "{{ type_of(variant, indent) + ('' if loop.last else ' | ') }}{% endfor %}"
    "{% elif type is not string and type is iterable %}"
    "{{ type | map('replace', 'integer', 'number') | join(' | ') }}"
    "{% elif type == 'object' %}{{ object_of(schema, indent) }}"
    "{% elif type == 'array' %}{% if 'items' in schema %}"
    "{{ type_of(schema['items'], indent) + '[]' }}"
    "{% else %}Array<any>{% endif %}"
    "{% elif type == 'string' and schema.get('enum') %}"
    "{{ '\"' + schema['enum'] | join('\" | \"') + '\"' }}"
    "{% elif type in ('integer', 'number') %}number"
    "{% elif type in ('string', 'boolean') %}{{ type }}"
    "{% else %}any{% endif %}{% endmacro %}"
)
_OBJECT = (
    "{% macro object_of(schema, indent) %}"
    "{% if schema.get('description') %}"
    "{{ indent + '// ' + schema['description'] + '\n' }}{% endif %}"
    "{{ '{\n' }}"
    "{% for name, part in (schema.get('properties') or {}).items() %}"
    "{% if part.get('title') %}"
    "{{ indent + '// ' + part['title'] + '\n' + indent + '//\n' }}{% endif %}"
    "{% if part.get('description') %}"
    "{{ indent + '// ' + part['description'] + '\n' }}{% endif %}"
    "{% if part.get('examples') %}{{ indent + '// Examples:\n' }}"
    "{% for example in part['examples'] if example is string %}"
    "{{ indent + '// - \"' + example + '\"\n' }}{% endfor %}{% endif %}"
    "{% set kind = type_of(part, indent + '    ') %}"
    "{{ indent + name + ('' if name in (schema.get('required') or []) else '?')"
    " + ': ' + kind }}"
    "{{ ' | null' if part.get('nullable') and 'null' not in kind }},"
    "{% if 'default' in part %}{{ ' // default: ' }}"
    "{% if part['default'] is not string %}"
    "{{ part['default'] | tojson(separators=(',', ':')) }}"
    "{% elif part.get('enum') %}{{ part['default'] }}"
    "{% else %}{{ '\"' + part['default'] + '\"' }}{% endif %}{% endif %}"
    "{{ '\n' }}{% endfor %}{{ indent + '}' }}{% endmacro %}"
)
_FUNCTIONS = (
    "{{ '# Tools\n\n## functions\n\nnamespace functions {\n\n' }}"
    "{% for tool in tools %}{% set function = tool.function %}"
    "{% if function.get('description') %}"
    "{% for line in function.description.split('\n') %}"
    "{{ '// ' + line + '\n' }}{% endfor %}{% endif %}"
    "{{ 'type ' + function.name + ' = (' }}"
    "{% if (function.get('parameters') or {}).get('properties') %}"
    "{{ '_: ' + object_of(function.parameters, '') }}{% endif %}"
    "{{ ') => any;\n\n' }}{% endfor %}{{ '} // namespace functions' }}"
)
_DEVELOPER = (
    "{% if tools %}{{ '<|start|>developer<|message|>' }}"
    "{% if messages[0].role == 'system' %}"
    "{{ '# Instructions\n\n' + messages[0].content + '\n\n' }}{% endif %}"
    + _FUNCTIONS
    + "{{ '<|end|>' }}{% endif %}"
)
_NOTE = (
    "{% if tools %}{{ '\nCalls to these tools must go to the commentary"
    " channel: \\'functions\\'.' }}{% endif %}"
)
# A thought, then calls or an answer. Words beside a call are a thought.
_ASSISTANT = (
    "{% set calls = message.tool_calls or [] %}"
    "{% set thought = message.thinking %}"
    "{% if calls and not thought and message.content %}"
    "{% set thought = message.content %}{% endif %}"
    "{% if thought is string %}"
    "{{ '<|start|>assistant<|channel|>analysis<|message|>' + thought"
    " + '<|end|>' }}{% endif %}"
    "{% set last.name = none %}{% for call in calls %}"
    "{% set last.name = call.function.name %}"
    "{% set arguments = call.function.arguments %}"
    "{{ '<|start|>assistant<|channel|>commentary to=functions.' + last.name"
    " + ' <|constrain|>json<|message|>'"
    " + (arguments if arguments is string else arguments | tojson)"
    " + '<|call|>' }}{% else %}"
    "{{ '<|start|>assistant<|channel|>final<|message|>'"
    " + (message.content or '') + '<|return|>' }}{% endfor %}"
)
# An answer of a function says whose it is: of the last call, if it does not itself.
_TOOL = (
    "{% set name = message.name if message.name is string else last.name %}"
    "{% if name is none %}"
    "{{ raise_exception('An answer of a tool follows no call') }}{% endif %}"
    "{{ '<|start|>functions.' + name + ' to=assistant<|channel|>commentary"
    "<|message|>' + message.content + '<|end|>' }}"
)


def _harmony(effort: str, *, opening: str = "", has_tools: bool) -> str:
  """The template.

  Args:
    effort: of reasoning: low, medium or high.
    opening: what stands behind the role in the generation prompt.
    has_tools: whether it has a place for tools.
  """
  told = _DEVELOPER if has_tools else ""
  return (
      (_TYPE + _OBJECT if has_tools else "")
      + "{{ '<|start|>system<|message|>You are ChatGPT, a large language model"
      " trained by OpenAI.\nKnowledge cutoff: 2024-06\nCurrent date: ' +"
      f" strftime_now('%Y-%m-%d') + '\n\nReasoning: {effort}\n\n# Valid"
      " channels: analysis, commentary, final. Channel must be included for"
      " every message.' }}"
      + (_NOTE if has_tools else "")
      + "{{ '<|end|>' }}"
      + told
      + "{% set last = namespace(name=none) %}{% for message in messages %}"
      "{% if message.role == 'assistant' %}"
      + _ASSISTANT
      + "{% elif message.role == 'system' %}"
      + ("{% if not (tools and loop.first) %}" if told else "")
      + "{{ '<|start|>developer<|message|># Instructions\n\n' + message.content"
      " + '<|end|>' }}"
      + ("{% endif %}" if told else "")
      + "{% elif message.role == 'tool' %}"
      + _TOOL
      + "{% else %}{{ '<|start|>' + message.role + '<|message|>'"
      " + message.content + '<|end|>' }}{% endif %}{% endfor %}"
      "{% if add_generation_prompt %}"
      f"{{{{ '<|start|>assistant{opening}' }}}}{{% endif %}}"
  )


# The policy opens the channels of its messages itself, so it may think first. What
# it thought stays in the conversation; a message without, such as an expert's, has
# none.
HARMONY = _harmony("medium", has_tools=True)
# With reasoning off: each answer is a message of the channel 'final' at once, and so
# no call of a function.
HARMONY_NO_THINK = _harmony(
    "low", opening="<|channel|>final<|message|>", has_tools=False
)
