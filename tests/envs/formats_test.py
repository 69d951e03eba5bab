"""Tests for agentrl.envs.formats, actions, functions and prompts."""

import json
import time

import pytest
from hypothesis import given, settings, strategies as st

from agentrl import envs
from agentrl.envs import formats, functions, prompts
from agentrl.envs.babyai import spec as babyai
from agentrl.errors import ConfigError

CALLING = ('function_calling', 'code')
# Words without those that texts of actions are cut at.
WORDS = st.lists(
    st.text('abcdxyz', min_size=1, max_size=5), min_size=1, max_size=3
).map(' '.join)


def parse(format, text, functions=()):
  """The action that a completion says, or '' and why there is none."""
  return formats.find(format).read(text, functions)


def write(format, action, functions=()):
  """A completion that says an action."""
  return formats.find(format).write(action, functions)


@pytest.mark.parametrize(
    'text, action',
    [
        ('Thought: I need logs.\nAction: get 1 oak logs', 'get 1 oak logs'),
        ('Thought:\nhm\n\nAction:\nturn left', 'turn left'),
        ('Action: go to red ball 1 \nand then some', 'go to red ball 1'),
        ('Action:turn left', 'turn left'),
    ],
)
def test_react_takes_the_line_after_the_only_action(text, action):
  assert parse('react', text) == (action, None)


@pytest.mark.parametrize(
    'text, error',
    [
        ('turn left', 'there is no "Action:"'),
        ('action: turn left', 'there is no "Action:"'),
        ('', 'there is no "Action:"'),
        ('Action: a\nAction: b', 'it has 2 times "Action:"'),
        ('Thought: done\nAction:  \n ', 'nothing follows "Action:"'),
    ],
)
def test_react_says_why_it_found_none(text, error):
  action, why = parse('react', text)
  assert action == '' and why.startswith(error)


@pytest.mark.parametrize(
    'label',
    [
        '**Action:** {}',
        '**Action**: {}',
        '**Action: {}**',
        '***Action:*** {}',
        '*Action:* {}',
        '__Action:__ {}',
        '`Action:` {}',
        '### Action: {}',
        '### **Action:**\n{}',
        '- **Action:** {}',
        '**Action:**\n\n{}\n\n**Observation:** none yet',
        'Action: **{}**',
        'Action: `{}`',
        'Action:**{}**',
        '**Action:** **`{}`**',
        'Action:\n### {}',
        'Action:\n```\n{}\n```',
        '**Action:**\n```text\n{}\n```\nso.',
        'Action: ```{}```',
        'Action:\n```\n{}',
    ],
)
@pytest.mark.parametrize(
    'action', ['go left', 'type [3] [*] [1]', 'get_item', 'a * b', '_x']
)
def test_react_reads_markdown(label, action):
  text = f'**Thought:** I *must* `go`.\n\n{label.format(action)}'
  assert parse('react', text) == (action, None)


@pytest.mark.parametrize(
    'text, error',
    [
        ('**Action:** a\n**Action:** b', 'it has 2 times "Action:"'),
        ('**Action**: a\nAction: b', 'it has 2 times "Action:"'),
        ('**Action:**', 'nothing follows "Action:"'),
        ('Action:\n```\n```', 'nothing stands behind'),
        ('Action:\n```\na\nb\n```', '2 lines stand behind'),
    ],
)
def test_react_in_markdown_says_why_it_found_none(text, error):
  action, why = parse('react', text)
  assert action == '' and why.startswith(error)


@pytest.mark.parametrize(
    'text',
    [
        '`turn left`',
        '**turn left**',
        '## turn left',
        '```\nturn left\n```',
        '```text\nturn left\n```\nThat is all.',
        '```turn left```',
    ],
)
def test_plain_reads_markdown(text):
  assert parse('plain', text) == ('turn left', None)


@pytest.mark.parametrize(
    'action',
    [
        *('*', '**', '`', '*a* and *b*', '#5', 'a*', '_', '#', '2 ** 3 **'),
        *('type [7] [# 5] [1]', 'say a ## b', 'll# forward'),
    ],
)
def test_marks_that_wrap_nothing_stay(action):
  assert parse('plain', action) == (action, None)
  assert parse('react', f'Action: {action}') == (action, None)


@pytest.mark.parametrize('text', ['*' * 10**6, '**Action' * 10**5, '_' * 10**6])
def test_reading_markdown_ends_soon(text):
  start = time.perf_counter()
  parse('react', text + ' Action: ' + text)
  parse('plain', text)
  assert time.perf_counter() - start < 5


def test_plain_is_the_first_line_with_words():
  assert parse('plain', ' \n turn left \nso there') == (
      'turn left',
      None,
  )
  assert parse('plain', ' \n') == ('', 'it is empty.')


@pytest.mark.parametrize(
    'format, text, action',
    [
        ('raw', ' <think>hm</think>\n<search>x</search> ', None),
        ('tags', 'I turn.\n<action> turn left\n</action>', 'turn left'),
        ('fenced', 'I act: ```click [12]```.', 'click [12]'),
        ('fenced', '```\nturn left\n```', 'turn left'),
        ('fenced', '```text\nturn left\n```', 'turn left'),
        ('fenced', '```turn left\n```', 'turn left'),
    ],
)
def test_delimited_actions_are_found(format, text, action):
  assert parse(format, text) == (action or text.strip(), None)


@pytest.mark.parametrize(
    'format, text, error',
    [
        ('raw', ' \n', 'it is empty.'),
        ('tags', 'turn left', 'there is no "<action>" in it.'),
        ('tags', '<action>a</action><action>b</action>', 'it has 2 times'),
        ('tags', '<action>a', 'there is no "</action>" in it.'),
        ('tags', '</action>a<action>', '"</action>" comes before'),
        ('tags', '<action> </action>', 'nothing stands between'),
        ('tags', '<action>a\nb</action>', '2 lines stand between'),
        ('fenced', 'turn left', 'it has 0 times "```"'),
        ('fenced', '```a``` or ```b```', 'it has 4 times "```"'),
        ('fenced', '```turn left', 'it has 1 times "```"'),
        ('fenced', '```\n```', 'nothing stands between'),
        ('fenced', '```\na\nb\n```', '2 lines stand between'),
    ],
)
def test_delimited_formats_say_why_they_found_none(format, text, error):
  action, why = parse(format, text)
  assert action == '' and why.startswith(error)


@pytest.mark.parametrize(
    'text',
    [
        '{"name": "get", "arguments": {"count": 2, "item": "oak logs"}}',
        (
            'I need logs. {"name": "get", "arguments": {"item": "oak logs",'
            ' "count": 2}}'
        ),
        (
            '<tool_call>\n{"name": "get", "arguments": {"count": 2, "item":'
            ' "oak logs"}}\n</tool_call>'
        ),
        (
            '{"thought": "I need\nlogs", "function_name": "get", "arguments":'
            ' {"count": 2, "item": " oak\\n logs"}}'
        ),
        (
            '```json\n{"name": "get", "arguments": {"count": 2, "item": "oak'
            ' logs"}}\n```'
        ),
    ],
)
def test_calls_as_json(text):
  parsed = parse('function_calling', text, envs.get('textcraft').functions)
  assert parsed == ('get 2 oak logs', None)


@pytest.mark.parametrize(
    'text',
    [
        'get(2, "oak logs")',
        "get(item='oak logs', count=2)",
        '# I need logs.\nget(2, item="oak logs")  # so',
        'So:\n```python\n# I need logs.\nget(2, "oak " "logs")\n```',
    ],
)
def test_calls_as_code(text):
  parsed = parse('code', text, envs.get('textcraft').functions)
  assert parsed == ('get 2 oak logs', None)


def call(name, **arguments):
  return json.dumps({'name': name, 'arguments': arguments})


@pytest.mark.parametrize(
    'text, error',
    [
        ('get 2 oak logs', 'it has no JSON object.'),
        ('{"name": "get"', 'its JSON is broken: Expecting'),
        ('{"name": NaN}', 'its JSON is broken: NaN is no JSON.'),
        ('{"name": "a", "name": "b"}', 'its JSON is broken: a key comes twice'),
        ('{"arguments": {}}', 'its JSON needs one "name"'),
        (
            '{"name": "get", "function_name": "get"}',
            'its JSON needs one "name"',
        ),
        ('{"name": "inventory", "x": 1}', "its JSON has 'x', but only"),
        ('{"name": "inventory", "arguments": []}', 'its "arguments" must be'),
        ('{"name": "inventory"} {"name": "inventory"}', 'it has more than one'),
        ('<tool_call>{"name": "inventory"}', 'there is no "</tool_call>"'),
        ('<tool_call></tool_call>', 'it has no JSON object.'),
        (call('dig'), "unknown function 'dig'; known: get, craft, inventory."),
        (call(['get']), 'unknown function a list; known'),
        (call('get', count=1), "get lacks the argument 'item'; call get(count"),
        (call('get', count=1, item='a', n=2), "get has no argument 'n'; call"),
        (call('get', count='1', item='a'), "argument 'count' of get must be a"),
        (
            call('get', count=True, item='a'),
            "argument 'count' of get must be a",
        ),
        (call('get', count=1.0, item='a'), "argument 'count' of get must be a"),
        (call('get', count=-1, item='a'), "argument 'count' of get must be a"),
        (call('get', count=10**40, item='a'), "argument 'count' of get must"),
        (call('get', count=1, item=2), "argument 'item' of get must be a text"),
        (call('get', count=1, item=' '), "argument 'item' of get must have"),
        (
            call('get', count=1, item='a\0'),
            "argument 'item' of get must be read",
        ),
        (call('get', count=1, item='\ud800'), "argument 'item' of get must be"),
    ],
)
def test_a_bad_call_gets_a_reason_that_names_it(text, error):
  parsed = parse('function_calling', text, envs.get('textcraft').functions)
  assert parsed[0] == '' and parsed[1].startswith(error), parsed


@pytest.mark.parametrize(
    'text, error',
    [
        ('', 'it has 0 statements'),
        ('# only thoughts', 'it has 0 statements'),
        ('inventory(); inventory()', 'it has 2 statements'),
        ('get 2 oak logs', 'it is no Python code'),
        ('inventory', 'it is no call of a function'),
        ('x = inventory()', 'it is no call of a function'),
        ('env.inventory()', 'it is no call of a function'),
        ('get(1, item)', 'arguments must be plain texts or numbers'),
        ('get(1, f"{1}")', 'arguments must be plain texts or numbers'),
        ('get(1, get(1, "a"))', 'arguments must be plain texts or numbers'),
        ('get(*[1, "a"])', 'arguments must be plain texts or numbers'),
        ('get(**{"count": 1})', 'arguments must be plain texts or numbers'),
        ('get(1, "a", 3)', 'get takes at most 2 arguments, got 3; call get('),
        ('get(1, count=1)', "get has the argument 'count' twice"),
        ('get(1)', "get lacks the argument 'item'"),
        (
            'get(b"1", "a")',
            "argument 'count' of get must be a whole number, not",
        ),
        ('__import__("os")', "unknown function '__import__'; known: get"),
        ('inventory()' + ' ' * 4000, 'its code is longer than 4000'),
        ('get(1, "a\0")', 'it is no Python code'),
        ('get(1, "\ud800")', 'it is no Python code'),
        ('```a()``` ```b()```', 'it has 4 times "```"'),
    ],
)
def test_bad_code_gets_a_reason_and_is_never_run(text, error):
  parsed = parse('code', text, envs.get('textcraft').functions)
  assert parsed[0] == '' and parsed[1].startswith(error), parsed


@pytest.mark.parametrize(
    'text, action',
    [
        ('use("thermometer", "water")', 'use thermometer on water'),
        ('use("thermometer")', 'use thermometer'),
        ('wait()', 'wait'),
        ('wait(1)', 'wait1'),
        ('choose(0)', '0'),
    ],
)
def test_a_function_may_stand_for_several_forms(text, action):
  assert parse('code', text, envs.get('sciworld').functions) == (
      action,
      None,
  )
  written = write('code', action, envs.get('sciworld').functions)
  assert parse('code', written, envs.get('sciworld').functions)[0] == action


def test_sciworld_has_the_functions_of_agentgym():
  assert len(envs.get('sciworld').functions) == 26  # and lookin
  assert functions.describe(envs.get('sciworld').functions).splitlines()[6] == (
      '- use(tool: str, obj: str = None): use TOOL on OBJ or use TOOL'
  )


@given(st.data())
@pytest.mark.parametrize(
    'env_name, function',
    [
        (spec.name, f)
        for spec in envs.every()
        for f in spec.functions
        if f.forms
    ],
    ids=lambda x: getattr(x, 'name', x),
)
@settings(max_examples=20)
def test_every_function_makes_the_round_trip(env_name, function, data):
  table = envs.get(env_name).functions
  form = data.draw(st.sampled_from(function.forms))
  arguments = {
      name: data.draw(
          st.integers(0, 10**9 - 1) if name in function.numbers else WORDS
      )
      for name in function.parameters
      if f'{{{name}}}' in form
  }
  action, error = functions.action_of(table, function.name, arguments)
  assert error is None and action == form.format(**arguments)
  if function.name != 'use' or len(arguments) == 1:
    assert functions.call_of(table, action) == (function.name, arguments)
  for format in CALLING:
    written = write(format, action, table)
    assert parse(format, written, table) == (action, None)


@given(st.sampled_from(sorted(formats.FORMATS)), WORDS)
def test_what_is_written_is_read(format, words):
  action = f'go to {words} 3'
  written = write(format, action, envs.get('babyai').functions)
  assert parse(format, written, envs.get('babyai').functions) == (
      action,
      None,
  )


def test_an_action_without_a_function_cannot_be_written_as_a_call():
  with pytest.raises(ValueError, match="No function stands for .*'dance'"):
    write('code', 'dance', envs.get('babyai').functions)


@pytest.mark.parametrize('env_name', ['textcraft', 'babyai'])
def test_functions_stand_for_whatever_the_expert_says(env_name):
  env = envs.get(env_name).open().make()
  table = envs.get(env_name).functions
  for task_id in range(0, 400, 10):
    env.reset(task_id, 0)
    for _ in range(8):
      action = env.expert_action()
      for format in CALLING:
        written = write(format, action, table)
        assert parse(format, written, table) == (action, None)
      if env.step(action).terminated:
        break


PIECES = st.one_of(
    st.text(st.characters(), max_size=8),
    st.sampled_from((
        '{', '}', '"name": ', '"get"', '"arguments"', '[', ']', '(', ')', ',',
        '<tool_call>', '</tool_call>', '<action>', '</action>', '```', '\n',
        'Action:', 'get', 'inventory', '1', '"', "'", '\\', '#', '\0',
        '\ud800', '\U0001f600', '\\ud800', 'lambda: ', 'f"{', '1e999',
    )),
)  # fmt: skip


@given(
    st.sampled_from(sorted(formats.FORMATS)),
    st.lists(PIECES, max_size=20).map(''.join),
)
@settings(max_examples=500)
def test_parsing_never_fails_and_gives_an_action_or_a_reason(format, text):
  action, error = parse(format, text, envs.get('textcraft').functions)
  assert bool(action) != bool(error)
  assert action == action.strip()
  assert format in ('raw', 'chat') or '\n' not in action
  assert error is None or (len(error) < 500 and error.endswith('.'))


@pytest.mark.parametrize('format', formats.FORMATS)
@pytest.mark.parametrize(
    'text',
    [
        'x' * 10**6,
        ' \n' * 5 * 10**5,
        '{' * 10**6,
        '{"a":' * 10**4 + '1' + '}' * 10**4,
        '{"name": "get", "arguments": ' + '[' * 10**4 + ']' * 10**4 + '}',
        '{"name": ' + '9' * 10**6 + '}',
        '(' * 10**4 + ')' * 10**4,
        'get' + '(get' * 10**4 + ')' * 10**4,
        'get(' + '-' * 3900 + '1)',
        'get(' + 'a.' * 1900 + 'a)',
        'get(0x' + 'f' * 3900 + ', "a")',
        'get(' + '9' * 3900 + ', "a")',
        '"' * 10**6,
        '<action>' * 10**5,
        '<tool_call>' * 10**5,
        '```' * 3 * 10**5,
        'Action:' * 10**5,
        '\0' * 1000,
        '\ud800\udfff' * 1000,
        '\U0001f600' * 1000,
        'get(1, "\\d")',
    ],
    ids=lambda text: repr(text[:12]),
)
def test_hostile_text_ends_soon_and_raises_nothing(format, text):
  start = time.thread_time()  # others may use the processor meanwhile
  action, error = parse(format, text, envs.get('textcraft').functions)
  assert time.thread_time() - start < 2.0
  assert bool(action) != bool(error) and len(error or '') < 500


# These bring their own.
@pytest.mark.parametrize(
    'env_name', sorted(envs.ENVS.keys() - {'program', 'verifiers'})
)
@pytest.mark.parametrize('format', formats.FORMATS)
def test_every_environment_has_instructions_for_every_format(env_name, format):
  full = envs.get(env_name).instructions(format, 'full')
  compact = envs.get(env_name).instructions(format, 'compact')
  assert len(compact) < 60 < len(full)
  assert ('Action:' in full) == (format == 'react')


def test_a_text_of_ones_own_has_the_parts_that_it_names():
  babyai_spec, text = envs.get('babyai'), 'Be quick.\n{environment}\n{format}'
  full = babyai_spec.instructions('react', 'full')
  assert babyai_spec.instructions('react', text) == (
      'Be quick.\n' + full.replace('\n\nAnswer', '\nAnswer', 1)
  )
  # Other braces are the user's.
  assert babyai_spec.instructions('plain', 'As {"json": {x}}') == (
      'As {"json": {x}}'
  )
  calls = functions.describe(envs.get('textcraft').functions)
  assert envs.get('textcraft').instructions('plain', '{functions}') == calls


OWN = """
from agentrl.envs.formats import Format

def instructions(words, functions, format):
  return f'{words.compact} {format.full}'

def breaks(words, functions, format):
  return 1 / 0

three = lambda words, functions, format: 3

def read(text, functions):
  if text == 'crash':
    return 1 / 0
  return (text.upper(), None) if text else ('', 'it is empty.')

SHOUT = Format(read=read, write=lambda action, functions: action.lower(), full='Shout.')
"""


@pytest.fixture
def own(tmp_path):
  path = tmp_path / 'mine.py'
  path.write_text(OWN)
  return lambda name: f'{path}:{name}'


def test_instructions_and_formats_of_ones_own(own):
  spec = envs.get('babyai')
  said = spec.instructions(own('SHOUT'), own('instructions'))
  assert said == f'{babyai.WORDS.compact} Shout.'
  assert spec.instructions(own('SHOUT'), 'full').endswith('\n\nShout.')
  assert parse(own('SHOUT'), 'go') == ('GO', None)
  assert parse(own('SHOUT'), '') == ('', 'it is empty.')
  assert write(own('SHOUT'), 'GO') == 'go'


@pytest.mark.parametrize(
    'name, said',
    [
        ('breaks', 'ZeroDivisionError: division by zero .*mine.py, line 8'),
        ('three', 'gives int, not a text'),
        ('none', 'has no attribute'),
        ('SHOUT', 'is a Format, not a Callable'),
    ],
)
def test_faults_of_ones_own_are_named(name, said, own):
  with pytest.raises(ConfigError, match=said):
    envs.get('babyai').instructions('plain', own(name))


def test_a_format_that_breaks_is_named(own):
  with pytest.raises(ConfigError, match='SHOUT: ZeroDivisionError'):
    parse(own('SHOUT'), 'crash')
  with pytest.raises(ConfigError, match='instructions is a function, not a F'):
    formats.find(own('instructions'))


def test_functions_cannot_be_called_where_there_are_none():
  with pytest.raises(ValueError, match="no functions to call in format 'code'"):
    prompts.instructions(babyai.WORDS, (), 'code')


SEARCH = functions.Function(
    'search',
    description='Finds pages.',
    schema={
        'type': 'object',
        'properties': {
            'words': {'type': 'array', 'items': {'type': 'string'}},
            'most': {'type': 'integer', 'minimum': 1},
        },
        'required': ['words'],
        'additionalProperties': False,
    },
)
HERMES = formats.FORMATS['tools']
LLAMA = formats.tools('', 'name', 'parameters', '')
# gpt-oss's.
_MARKS = (
    '<|channel|>commentary to=functions.',
    ' <|constrain|>json<|message|>',
    '<|call|>',
)
HARMONY = formats.named_tools(*_MARKS)


def call(text, format=HERMES, table=(SEARCH,)):
  return format.read(text, table)


def test_a_call_of_a_schema_is_its_own_json():
  text = (
      '<tool_call>\n{"name": "search", "arguments": {"words": ["a",'
      ' "b"]}}\n</tool_call>'
  )
  action, error = call(f'I look it up.\n{text}')
  assert error is None
  assert json.loads(action) == {
      'name': 'search',
      'arguments': {'words': ['a', 'b']},
  }
  assert HERMES.write(action, (SEARCH,)) == text
  assert functions.called((SEARCH,), action) == (
      'search',
      {'words': ['a', 'b']},
  )
  assert SEARCH.signature == 'search(words: list, most: int = None)'


def test_llamas_call_is_bare():
  text = '{"name": "search", "parameters": {"words": ["a"]}}'
  action, error = call(text, LLAMA)
  assert error is None and LLAMA.write(action, (SEARCH,)) == text
  assert call(f'Well: {text}', LLAMA)[1] == 'it is no JSON object.'


def test_a_call_may_name_its_function_outside_of_the_json():
  written = HARMONY.write(
      '{"name": "search", "arguments": {"words": ["a"]}}', (SEARCH,)
  )
  before, between, after = _MARKS
  assert written == f'{before}search{between}{{"words": ["a"]}}{after}'
  action, error = call(f'I look it up.\n{written}', HARMONY)
  assert error is None
  assert functions.called((SEARCH,), action) == ('search', {'words': ['a']})
  # Arguments may hold the words of other formats.
  odd = written.replace('"a"', '"<tool_call>"')
  assert call(odd, HARMONY)[1] is None
  words = formats.named_tools(*_MARKS, words=True)
  assert call('It is a.', words) == ('It is a.', None)
  assert words.write('It is a.', (SEARCH,)) == 'It is a.'
  assert call(written, words) == (action, None)


@pytest.mark.parametrize(
    'text, said',
    [
        ('It is a.', 'there is no "<|channel|>commentary to=functions." in it'),
        ('{before}search{between}{{"words": [', 'there is no "<|call|>" in it'),
        ('{before}search{between}{{"words": [}}{after}', 'its JSON is broken'),
        ('{before}search{between}{after}', 'it has no JSON object'),
        ('{before}search{{}}{after}', 'there is no " <|constrain|>json'),
        (
            '{before}find{between}{{}}{after}',
            "unknown function 'find'; known: s",
        ),
        ('{before}{between}{{}}{after}', "unknown function ''"),
        (
            '{before}search{between}{{}}{after}',
            "'words' is a required property",
        ),
        ('{before}search{between}[1]{after}', 'it has no JSON object'),
        (
            '{before}search{between}{{}}{after}\n{before}search{between}{{}}{after}',
            'only one action',
        ),
        (
            '{before}search{between}{{}}{after}\nso',
            'something stands behind "<|call',
        ),
        ('{before}search{between}{{}} so{after}', 'stands behind its JSON'),
    ],
)
def test_what_is_no_named_call_is_explained(text, said):
  before, between, after = _MARKS
  text = text.format(before=before, between=between, after=after)
  action, error = call(text, HARMONY)
  assert action == '' and said in error


def test_functions_without_a_schema_are_tools_as_well():
  table = envs.get('textcraft').functions
  tool = table[0].tool['function']
  assert tool['name'] == 'get' and tool['description'] == 'get COUNT ITEM'
  assert tool['parameters'] == {
      'type': 'object',
      'properties': {'count': {'type': 'integer'}, 'item': {'type': 'string'}},
      'required': ['count', 'item'],
  }
  text = HERMES.write('get 2 oak logs', table)
  assert call(text, table=table) == ('get 2 oak logs', None)


@pytest.mark.parametrize(
    'text, said',
    [
        ('search', 'there is no "<tool_call>"'),
        (
            '<tool_call>{}</tool_call><tool_call>{}</tool_call>',
            'only one action',
        ),
        (
            '<tool_call>{"name": "search", "arguments": {"words": []}}',
            'no "</tool_',
        ),
        (
            '<tool_call>{"name": "x", "arguments": {}}</tool_call>',
            "unknown function 'x'",
        ),
        (
            (
                '<tool_call>{"name": "search", "arguments": {"words":'
                ' 3}}</tool_call>'
            ),
            "arguments['words'] of search: 3 is not of type 'array'",
        ),
        (
            '<tool_call>{"name": "search", "arguments": {}}</tool_call>',
            "'words' is a required property",
        ),
        (
            (
                '<tool_call>{"name": "search", "arguments": {"words": [],'
                ' "most": 0}}</tool_call>'
            ),
            '0 is less than the minimum of 1',
        ),
        (
            '<tool_call>{"name": "search"}</tool_call>',
            'must have "name" and "arg',
        ),
        (
            '<tool_call>{"name": "search", "arguments": 1}</tool_call>',
            'JSON object',
        ),
        ('<tool_call>[1]</tool_call>', 'it has no JSON object'),
        (
            (
                '<tool_call>{"name": "search", "arguments": {"words":'
                ' []}}</tool_call> so'
            ),
            'something stands behind',
        ),
        (
            (
                '<tool_call>{"name": "search", "arguments": {"words": []}}'
                ' so</tool_call>'
            ),
            'something stands behind its JSON',
        ),
        (
            (
                '<tool_call>{"name": "search", "arguments": {"words":'
                ' ["\\ud800"]}}</tool_call>'
            ),
            'must be readable text',
        ),
    ],
)
def test_what_is_no_call_is_explained(text, said):
  action, error = call(text)
  assert action == '' and said in error


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_reading_tools_raises_nothing(text):
  before, between, after = _MARKS
  for format in (HERMES, LLAMA, HARMONY):
    for around in (
        text,
        f'<tool_call>{text}</tool_call>',
        f'{{{text}}}',
        f'{before}search{between}{{{text}}}{after}',
    ):
      action, error = format.read(around, (SEARCH,))
      assert (action == '') == (error is not None)


# Of a tool that others describe: not every argument has a type.
FIND = functions.Function(
    'find',
    schema={
        'type': 'object',
        'properties': {
            'who': {'type': 'string'},
            'part': {'type': 'number', 'multipleOf': 0.1},
            'limit': {},
            'more': True,
        },
    },
)
HUGE = '0x' + 'f' * 3950  # Python reads it, and refuses to write it
CODE = formats.FORMATS['code']


@pytest.mark.parametrize(
    'text, said',
    [
        ('find(who="a", limit=...)', "argument 'limit' of find must be JSON"),
        ('find("a", n=b"x")', "argument 'n' of find must be JSON"),
        ('find(limit=1j)', 'at most 64 bits, not a complex.'),
        ('find(limit=1e999)', 'at most 64 bits, not inf.'),
        (f'find(limit={HUGE})', 'at most 64 bits, not a huge number.'),
        (f'find(who={HUGE})', 'at most 64 bits, not a huge number.'),
        ('find(1, 2, 3, 4, 5)', 'limit: any = None, more: any = None)'),
    ],
)
def test_code_that_is_no_json_gets_a_reason(text, said):
  action, error = call(text, CODE, (FIND,))
  assert action == '' and said in error


@pytest.mark.parametrize(
    'arguments, said',
    [
        ('{"limit": 1e999}', 'at most 64 bits, not inf.'),
        ('{"limit": [{"n": -1e999}]}', 'at most 64 bits, not a list.'),
        ('{"part": %s}' % ('9' * 400), 'at most 64 bits, not a huge number.'),
        ('{"limit": %s}' % ('9' * 5000), 'its JSON is broken: Exceeds'),
        ('{"limit": NaN}', 'its JSON is broken: NaN is no JSON'),
    ],
)
def test_numbers_that_json_cannot_say_get_a_reason(arguments, said):
  text = f'<tool_call>{{"name": "find", "arguments": {arguments}}}</tool_call>'
  action, error = call(text, table=(FIND,))
  assert action == '' and said in error


def test_ids_of_64_bits_and_values_of_any_kind_are_arguments():
  values = {'who': 'a', 'limit': [2**64 - 1, 0.5, None, {'b': True}]}
  action = functions.write_call('find', values)
  assert call(f'<tool_call>{action}</tool_call>', table=(FIND,)) == (
      action,
      None,
  )
  assert functions.called((FIND,), action) == ('find', values)


@pytest.mark.parametrize('value', ['NaN', '1e999', '9' * 400, '[' * 10**4])
def test_an_action_with_numbers_that_json_cannot_say_is_no_call(value):
  action = f'{{"name": "find", "arguments": {{"limit": {value}}}}}'
  assert functions.called((FIND,), action) is None


VALUES = st.one_of(
    st.text(max_size=8),
    st.integers().map(str),
    st.floats().map(str),
    st.sampled_from((
        '...', 'b"x"', '1j', '1e999', '-1e999', 'NaN', 'None', 'null', 'true',
        HUGE, '9' * 400, '9' * 5000, '"a"', '"\\ud800"', '{}', '[[1e999]]',
        '[' * 300 + ']' * 300, '{"limit":' * 300 + '1' + '}' * 300,
        '[' * 2000 + ']' * 2000, '{"limit":' * 2000,
    )),
)  # fmt: skip
NAMES = st.sampled_from(('who', 'part', 'limit', 'more', 'n'))


@st.composite
def calls(draw):
  """A format, and a call with any arguments, roughly in its syntax."""
  format = draw(st.sampled_from([*formats.FORMATS.values(), LLAMA, HARMONY]))
  drawn = draw(st.lists(st.tuples(NAMES, VALUES), max_size=3))
  if format is CODE:
    inside = ', '.join(f'{name}={value}' for name, value in drawn)
    return format, f'find({inside})'
  inside = ', '.join(f'"{name}": {value}' for name, value in drawn)
  if format is HARMONY:
    before, between, after = _MARKS
    return format, f'{before}find{between}{{{inside}}}{after}'
  key = 'parameters' if format is LLAMA else 'arguments'
  text = f'{{"name": "find", "{key}": {{{inside}}}}}'
  return format, text if format is LLAMA else f'<tool_call>{text}</tool_call>'


@settings(max_examples=300, deadline=None)
@given(calls())
def test_reading_calls_of_a_schema_raises_nothing(drawn):
  format, text = drawn
  action, error = format.read(text, (FIND,))
  assert bool(action) != bool(error)
  if action and format.calls:
    assert functions.called((FIND,), action)[0] == 'find'
