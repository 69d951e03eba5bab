"""Tests for agentrl.envs.searchqa.question_files."""

import json

import pytest

from agentrl import envs
from agentrl.envs.searchqa import question_files
from agentrl.errors import ConfigError, DataError

# One row each of FlashRAG's NQ, HotpotQA, MuSiQue, SQuAD and TriviaQA.
ROWS = [
    {
        'id': 'test_0',
        'question': 'who got the first nobel prize in physics',
        'golden_answers': ['Wilhelm Conrad Röntgen'],
        'data_source': 'nq',
    },
    {
        '_id': '5a8b57f25542995d1e6f1371',
        'question': 'Were Scott and Ed of the same nationality?',
        'answer': 'yes',
        'type': 'comparison',
        'context': [['Ed Wood', ['He was American.']]],
    },
    {
        'id': '2hop__1',
        'question': ' Who founded it? ',
        'answer': 'Ann Lee',
        'answer_aliases': ['A. Lee', 'Ann Lee'],
    },
    {
        'question': 'Which tower?',
        'answers': {'text': ['Eiffel Tower', 'the tower'], 'answer_start': [1]},
    },
    {
        'question': 'Which city?',
        'answer': {'value': 'Paris', 'aliases': ['Paname'], 'type': 'Entity'},
    },
]


def write(path, rows):
  path.write_text('\n'.join(json.dumps(x) for x in rows) + '\n', 'utf-8')
  return str(path)


def test_the_common_shapes_are_read(tmp_path):
  path = write(tmp_path / 'q.jsonl', ROWS)
  found = question_files.read(path)
  assert [x.answers for x in found] == [
      ('Wilhelm Conrad Röntgen',),
      ('yes',),
      ('Ann Lee', 'A. Lee'),
      ('Eiffel Tower', 'the tower'),
      ('Paris', 'Paname'),
  ]
  assert [x.name for x in found] == [
      'test_0',
      '5a8b57f25542995d1e6f1371',
      '2hop__1',
      'line 4',
      'line 5',
  ]
  assert found[2].text == 'Who founded it?'
  assert {x.split for x in found} == {'test'}
  assert [x.kind for x in found[:2]] == ['nq', 'questions']


def test_a_json_list_is_read_too(tmp_path):
  (tmp_path / 'q.json').write_text(json.dumps(ROWS, indent=1))
  lines = question_files.read(write(tmp_path / 'q.jsonl', ROWS))
  listed = question_files.read(str(tmp_path / 'q.json'))
  assert [x.answers for x in listed] == [x.answers for x in lines]


def test_splits_come_from_lines_or_from_files(tmp_path):
  rows = [dict(ROWS[i], split=x) for i, x in enumerate(('dev', 'train', 'dev'))]
  path = write(tmp_path / 'q.jsonl', rows)
  spec = envs.get('searchqa')
  assert spec.tasks('dev', questions=path) == (0, 2)
  assert spec.tasks('train', questions=path) == (1,)
  with pytest.raises(ConfigError, match='none of the test split; give'):
    spec.tasks('test', questions=path)
  files = {
      'test': write(tmp_path / 'a.jsonl', ROWS[:2]),
      'train': write(tmp_path / 'b.jsonl', ROWS[2:]),
  }
  assert spec.tasks('train', questions=files) == (0, 1, 2)
  assert spec.tasks('test', questions=files) == (3, 4)
  kind = spec.subtasks(questions=files)
  assert (kind(0), kind(3)) == ('questions', 'nq')


def test_generated_questions_have_their_hops_as_kind():
  kind = envs.get('searchqa').subtasks()
  assert [kind(x) for x in (0, 2824, 5050)] == ['1 hop', '2 hops', '3 hops']


@pytest.mark.parametrize(
    'line, reason',
    [
        ('{', 'it is not JSON'),
        ('"who"', "it is no object but 'who'"),
        ('{"answer": "x"}', '"question" must be a text, got None'),
        ('{"question": " ", "answer": "x"}', '"question" must be a text'),
        ('{"question": "who"}', 'it has none of golden_answers, answers, answ'),
        ('{"question": "who", "answer": []}', '"answer" must be a text or'),
        ('{"question": "who", "answer": 7}', '"answer" must be .* got 7'),
        ('{"question": "who", "answers": ["a", ""]}', '"answers" must be'),
        ('{"question": "who", "answers": {"x": 1}}', '"answers" must be'),
        (
            '{"question": "w", "answer": "a", "split": "x"}',
            '"split" must be tra',
        ),
    ],
)
def test_a_bad_line_says_file_line_and_reason(tmp_path, line, reason):
  path = tmp_path / 'q.jsonl'
  path.write_text(json.dumps(ROWS[0]) + '\n\n' + line + '\n')
  with pytest.raises(DataError, match=rf'q\.jsonl, line 3: {reason}'):
    question_files.read(str(path))


def test_a_line_of_another_split_than_its_file_is_refused(tmp_path):
  path = write(tmp_path / 'q.jsonl', [dict(ROWS[0], split='test')])
  with pytest.raises(DataError, match='line 1: "split" must be train'):
    question_files.read({'train': path})


@pytest.mark.parametrize('content', [b'', b'\n\n', b'\xff', b'[1,', b'[]'])
def test_a_file_that_cannot_be_used_is_refused(tmp_path, content):
  (tmp_path / 'q.jsonl').write_bytes(content)
  with pytest.raises(DataError, match=r'q\.jsonl'):
    question_files.read(str(tmp_path / 'q.jsonl'))
  with pytest.raises(DataError, match='Cannot read .*nowhere'):
    question_files.read(str(tmp_path / 'nowhere'))


@pytest.mark.parametrize('files', [7, '', {}, {'eval': 'x'}, {'test': None}])
def test_an_option_that_names_no_file_is_refused(files):
  with pytest.raises(ConfigError, match='questions must be the path of'):
    question_files.read(files)
