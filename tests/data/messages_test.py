"""Tests for messages of recorded conversations: what is known, what is refused."""

import pytest

from agentrl.data import messages
from agentrl.errors import DataError


def assistant(**fields):
  return [
      {'role': 'user', 'content': 'go'},
      {'role': 'assistant', 'content': 'left', **fields},
  ]


@pytest.mark.parametrize('field', messages.LEARN)
@pytest.mark.parametrize(
    'value, learn',
    [
        *((value, False) for value in (0, 0.0, False)),
        *((value, True) for value in (1, 1.0, True, None)),
    ],
)
def test_a_message_says_whether_it_is_learnt(field, value, learn):
  assert messages.read(assistant(**{field: value})).learn == (False, learn)


@pytest.mark.parametrize('field', messages.LEARN)
@pytest.mark.parametrize('value', [0.5, 2, -1, 'no', '0', [], {}])
def test_a_message_is_learnt_whole_or_not_at_all(field, value):
  with pytest.raises(DataError, match=f'message 1 has {field}='):
    messages.read(assistant(**{field: value}))


@pytest.mark.parametrize(
    'fields',
    [dict(loss=True, weight=0), dict(train=False, trainable=True)],
)
def test_a_message_that_contradicts_itself_is_refused(fields):
  with pytest.raises(DataError, match='message 1 contradicts itself: '):
    messages.read(assistant(**fields))


@pytest.mark.parametrize(
    'field',
    ['learn', 'mask', 'wieght', 'masked', 'ignore', 'skip', 'train_on', 'end'],
)
@pytest.mark.parametrize('value', [0, False, 'x', {'a': 1}])
def test_an_unknown_field_is_refused_by_name(field, value):
  with pytest.raises(
      DataError, match=f'message 1 has the unknown field {field}'
  ):
    messages.read(assistant(**{field: value}))


@pytest.mark.parametrize(
    'fields',
    [
        dict(name='anna'),
        dict(metadata={'x': 1}, timestamp=3),
        dict(tool_calls=[], refusal=None, reasoning_content=''),
        dict(id='m-1', index=1, model='m'),
    ],
)
def test_fields_without_a_meaning_pass(fields):
  assert messages.read(assistant(**fields)).learn == (False, True)


def test_words_of_others_are_not_learnt():
  said = [{'role': 'user', 'content': 'go', 'weight': 1}, *assistant()[1:]]
  with pytest.raises(DataError, match="message 0, of 'user', is marked"):
    messages.read(said)


@pytest.mark.parametrize(
    'content, text',
    [
        (
            [{'type': 'text', 'text': 'go '}, {'type': 'text', 'text': 'on'}],
            'go on',
        ),
        (['go', ' on'], 'go on'),
        ([{'text': 'go'}], 'go'),
        ([{'type': 'output_text', 'text': 'go', 'annotations': []}], 'go'),
        ('', ''),
    ],
)
def test_content_may_be_parts(content, text):
  (found,) = messages.read([{'role': 'user', 'content': content}]).messages
  assert found.content == text


@pytest.mark.parametrize(
    'message, reason',
    [
        ({'role': 'tool', 'content': '3'}, 'message of the user here: name it'),
        ({'from': 'observation', 'value': '3'}, "name it 'user'"),
        ({'role': 'developer', 'content': 'x'}, 'known: system, human'),
        ({'role': 'assistant', 'content': None}, 'has no text but None'),
        (
            {'role': 'assistant', 'content': None, 'tool_calls': [{'id': '1'}]},
            'message 0 has tool_calls=',
        ),
        (
            {'role': 'assistant', 'content': 'x', 'reasoning_content': 'hm'},
            "write it into 'content'",
        ),
        (
            {'role': 'user', 'content': [{'type': 'image_url', 'url': 'x'}]},
            "part of type 'image_url'",
        ),
        (
            {
                'role': 'user',
                'content': [{'type': 'text', 'text': 'x', 'w': 0}],
            },
            'a part of message 0 has the unknown field w=0',
        ),
        ({'role': 'user', 'content': [7]}, 'a part that is no text but 7'),
        (
            {'role': 'user', 'content': 'x', 'value': 'y'},
            "both 'value' and 'content'",
        ),
        ('go', 'message 0 is a str'),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_way_out(message, reason):
  with pytest.raises(DataError, match=reason):
    messages.read([message])
