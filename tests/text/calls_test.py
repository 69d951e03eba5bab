"""Tests for agentrl.text.calls: calls of tools in the text of a completion."""

import pytest
from hypothesis import given, strategies as st

from agentrl.text import calls
from agentrl.text.calls import Call, CallSyntax, NamedCallSyntax

QWEN = CallSyntax('<tool_call>\n', 'name', 'arguments', '\n</tool_call>')
LLAMA = CallSyntax('', 'name', 'parameters', '')
HARMONY = NamedCallSyntax('<|to|>functions.', '<|json|>', '<|call|>')
SYNTAXES = (QWEN, LLAMA, HARMONY)
NAMES = ('add', 'look_up')
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
made = st.builds(
    Call, st.sampled_from(NAMES), st.dictionaries(st.text(), values)
)
plain = st.text('ab {}\n', max_size=30)
hostile = st.text('ab <tool_cal>|\n{}', max_size=30)


@pytest.mark.parametrize('syntax', SYNTAXES, ids=['qwen', 'llama', 'harmony'])
@given(call=made, words=plain, thought=st.none() | plain)
def test_what_is_written_is_read(syntax, call, words, thought):
  before = '' if thought is None else f'<think>\n{thought}\n</think>\n\n'
  if syntax.before:  # else a call is a whole answer
    before += words
  text = before + syntax.write(call)
  assert calls.split(text, syntax, NAMES) == (before, call)
  assert calls.split(text, syntax, ('other',)) == (text, None)


@pytest.mark.parametrize('syntax', SYNTAXES, ids=['qwen', 'llama', 'harmony'])
@given(call=made, words=hostile, cut=st.integers(0, 200))
def test_what_is_settled_begins_what_is_said_in_the_end(
    syntax, call, words, cut
):
  text = words + syntax.write(call)
  said, _ = calls.split(text, syntax, NAMES)
  shown = [calls.settled(text[:i], syntax) for i in range(len(text))]
  assert all(b.startswith(a) for a, b in zip(shown, shown[1:], strict=False))
  assert said.startswith(shown[min(cut, len(shown) - 1)])


ADD = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'


@pytest.mark.parametrize(
    'text',
    [
        '',
        'It is 4.',
        ADD.removesuffix('>'),
        f'{ADD} Done.',
        f'{ADD}\n{ADD}',
        ADD.replace('add', 'multiply'),
        ADD.replace('{"a": 1}', '[1]'),
        ADD.replace('"add"', '["add"]'),
        ADD.replace('"arguments"', '"parameters"'),
        ADD.replace('{"a": 1}', '{"a": 1}, "x": 2'),
        ADD.replace('{"a"', '{a'),
        f'<tool_call>\n{"[" * 100_000}\n</tool_call>',
        f'<think>\n{ADD}',
        f'<think>\n{ADD}\n</think>\n\nI do not call it.',
        f'<think>a</think>{ADD[:5]}<think>b</think>{ADD[5:]}',
    ],
)
def test_what_is_no_call_is_all_words(text):
  assert calls.split(text, QWEN, NAMES) == (text, None)


def test_a_call_that_is_a_whole_answer_may_follow_several_thoughts():
  call = '{"name": "add", "parameters": {}}'
  text = f'<think>a</think> <think>b</think>\n{call}'
  words = text.removesuffix(call)
  assert calls.split(text, LLAMA, NAMES) == (words, Call('add', {}))
  apart = f'<think>a</think>{call[:5]}<think>b</think>{call[5:]}'
  assert calls.split(apart, LLAMA, NAMES) == (apart, None)
