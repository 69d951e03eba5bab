"""Questions from files: JSON lines in the shapes of common data sets.

    {"question": "who wrote it", "golden_answers": ["Ann", "A. Lee"], ...}
    {"question": "who wrote it", "answer": "Ann", "answer_aliases": ["A. Lee"]}
    {"question": "who wrote it", "answers": {"text": ["Ann"]}, "split": "dev"}
    {"question": "who wrote it", "answer": {"value": "Ann", "aliases": [...]}}

that is FlashRAG and Search-R1, HotpotQA and MuSiQue, SQuAD, TriviaQA. A file
may also be one JSON list of such objects. Ids count the questions from 0.
"""

import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from agentrl import json_files
from agentrl.envs.searchqa.records import SPLITS, Question
from agentrl.errors import ConfigError, DataError

_ANSWER_KEYS = ('golden_answers', 'answers', 'answer')


def check(files: str | Mapping[str, str]) -> dict[str, str]:
  """Split -> path; '' stands for a file whose questions name their split.

  Raises:
    ConfigError: it is neither a path nor a path for each split.
  """
  paths = {'': files} if isinstance(files, str) else files
  if (
      not isinstance(paths, Mapping)
      or not paths
      or not all(isinstance(path, str) and path for path in paths.values())
      or not set(paths) <= {'', *SPLITS}
  ):
    raise ConfigError(
        'questions must be the path of a JSONL file or a path for each split,'
        f' as in {{"train": "a.jsonl", "test": "b.jsonl"}}, got {files!r}.'
    )
  return dict(paths)


def read(files: str | Mapping[str, str]) -> tuple[Question, ...]:
  """The questions of all files, in the order train, dev, test.

  Questions of a single file that do not name a split are for testing.

  Raises:
    ConfigError: `files` is not as `check` wants it.
    DataError: a file or one of its lines cannot be used.
  """
  paths = check(files)
  return tuple(
      question
      for split in ('', *SPLITS)
      if split in paths
      for question in _read_file(pathlib.Path(paths[split]), split)
  )


def _read_file(path: pathlib.Path, split: str) -> Iterator[Question]:
  count = 0
  for place, row in _rows(path):
    try:
      yield _question(row, split, name=place)
    except ValueError as error:
      raise DataError(f'{path}, {place}: {error}') from error
    count += 1
  if not count:
    raise DataError(f'{path} has no questions.')


def _rows(path: pathlib.Path) -> Iterator[tuple[str, Any]]:
  """The JSON values of a file, each with its place."""
  text = json_files.read_text(path)
  if text.lstrip().startswith('['):
    try:
      rows = json_files.loads(text)
    except json_files.BROKEN as error:
      raise DataError(f'{path} is not JSON: {error}') from error
    yield from ((f'item {i}', row) for i, row in enumerate(rows))
    return
  for number, line in enumerate(text.split('\n'), 1):
    if line.strip():
      try:
        yield f'line {number}', json_files.loads(line)
      except json_files.BROKEN as error:
        raise DataError(
            f'{path}, line {number}: it is not JSON: {error}'
        ) from error


def _question(row: Any, split: str, name: str) -> Question:
  """Raises ValueError with what is wrong."""
  if not isinstance(row, dict):
    raise ValueError(f'it is no object but {row!r:.80}.')
  text = row.get('question')
  if not isinstance(text, str) or not text.strip():
    raise ValueError(f'"question" must be a text, got {text!r:.80}.')
  own_split = row.get('split', split or 'test')
  if own_split not in SPLITS or (split and own_split != split):
    allowed = split or ', '.join(SPLITS)
    raise ValueError(f'"split" must be {allowed}, got {own_split!r:.80}.')
  own_name = row.get('id', row.get('_id', name))
  kind = row.get('data_source', 'questions')
  return Question(
      name=str(own_name),
      split=own_split,
      text=text.strip(),
      answers=_answers(row),
      kind=kind if isinstance(kind, str) else 'questions',
  )


def _answers(row: Mapping[str, Any]) -> tuple[str, ...]:
  key = next((key for key in _ANSWER_KEYS if key in row), None)
  if key is None:
    raise ValueError(f'it has none of {", ".join(_ANSWER_KEYS)}.')
  answers = _listed(row[key]) + _listed(row.get('answer_aliases', []))
  if not answers or not all(isinstance(x, str) and x.strip() for x in answers):
    raise ValueError(f'"{key}" must be a text or texts, got {row[key]!r:.80}.')
  return tuple(dict.fromkeys(x.strip() for x in answers))


def _listed(value: Any) -> list[Any]:
  if isinstance(value, dict) and 'text' in value:
    return _listed(value['text'])
  if isinstance(value, dict) and 'value' in value:
    return [value['value'], *_listed(value.get('aliases', []))]
  return list(value) if isinstance(value, list) else [value]
