"""Tests for files that a user gives: encodings, in every reader of them."""

import json

import pytest

from agentrl import json_files
from agentrl.data import conversations, preference
from agentrl.envs import items
from agentrl.envs.searchqa import question_files
from agentrl.errors import DataError


def fail(error):
  raise error


CHAT = {'messages': [{'role': 'user', 'content': 'é'},
                     {'role': 'assistant', 'content': 'go'}]}  # fmt: skip
PAIR = {'prompt': 'é', 'chosen': 'go', 'rejected': 'stop'}
QUESTION = {'question': 'é?', 'answer': 'x'}
READERS = {
    'conversations': (
        lambda path: list(conversations.read(path, on_broken=fail)),
        [CHAT, CHAT],
    ),
    'pairs': (
        lambda path: list(preference.read(path, on_broken=fail)),
        [PAIR, PAIR],
    ),
    'questions': (
        lambda path: list(question_files._rows(path)),
        [QUESTION, QUESTION],
    ),
    'items': (
        lambda path: items.read(path, 'babyai'),
        [{'item_id': 'babyai_1'}, {'item_id': 'babyai_2', 'name': 'é'}],
    ),
}


def written(tmp_path, records, encoding='utf-8'):
  path = tmp_path / 'file.json'
  lines = ',\n'.join(json.dumps(x, ensure_ascii=False) for x in records)
  path.write_bytes(f'[{lines}]\n'.encode(encoding))
  return path


@pytest.mark.parametrize('kind', READERS)
def test_a_byte_order_mark_is_no_part_of_a_file(kind, tmp_path):
  read, records = READERS[kind]
  plain = read(written(tmp_path, records))
  marked = read(written(tmp_path, records, 'utf-8-sig'))
  assert len(plain) == len(marked) == 2


@pytest.mark.parametrize('kind', READERS)
@pytest.mark.parametrize('encoding', ['latin-1', 'cp1252', 'utf-16'])
def test_bytes_that_are_not_utf8_are_refused_with_their_line(
    kind, encoding, tmp_path
):
  read, records = READERS[kind]
  path = written(tmp_path, records, encoding)
  line = 2 if kind == 'items' and encoding != 'utf-16' else 1
  with pytest.raises(DataError, match=f'line {line} is not UTF-8'):
    read(path)


def test_the_line_counts_from_behind_a_mark(tmp_path):
  path = tmp_path / 'x'
  path.write_bytes(b'\xef\xbb\xbfone\n\ntw\xe9\n')
  with pytest.raises(DataError, match='line 3 is not UTF-8 .byte 0xe9'):
    json_files.read_text(path)


@pytest.mark.parametrize('kind', READERS)
def test_half_a_surrogate_pair_is_no_character(kind, tmp_path):
  read, records = READERS[kind]
  path = written(tmp_path, records)
  path.write_text(path.read_text('utf-8').replace('é', '\\ud83d'), 'utf-8')
  with pytest.raises(DataError, match=r'\\ud83d, half of a surrogate pair'):
    read(path)
  path.write_text(path.read_text('utf-8').replace('ud83d', 'ud83d\\ude00'))
  assert len(read(path)) == 2
