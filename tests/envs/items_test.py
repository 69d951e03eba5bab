"""Tests for agentrl.envs.items."""

import json

import pytest

from agentrl.envs import ENVS, items
from agentrl.errors import DataError


def test_item_file_gives_task_ids(tmp_path):
  path = tmp_path / 'items.json'
  path.write_text(
      '[{"item_id": "textcraft_12", "source": "a"}, {"item_id": "textcraft_3"}]'
  )
  assert items.read(path, 'textcraft') == (12, 3)


@pytest.mark.parametrize('name', sorted({*ENVS, 'lmrlgym_maze', 'tool_todo'}))
def test_item_files_serve_every_environment(tmp_path, name):
  path = tmp_path / 'items.json'
  # The second form is that of AgentGym's evaluation files.
  path.write_text(
      json.dumps([
          {'item_id': f'{name}_7'},
          {'item_id': f'{name}_0', 'conversations': None},
      ])
  )
  assert items.read(path, name) == (7, 0)
  with pytest.raises(DataError, match=f"Item 0 .*{name}_7.*'other_12'"):
    items.read(path, 'other')


@pytest.mark.parametrize(
    'text, message',
    [
        (
            '[{"item_id": "textcraft_3"}, {"item_id": "babyai_3"}]',
            "Item 1 .*babyai_3.*'textcraft_12'",
        ),
        (
            '[{"item_id": "textcraft_3"}, {"item_id": "textcraft_03"}]',
            "Item 1 .* repeats item 0, 'textcraft_03'",
        ),
        ('[{"item_id": "lmrlgym_textcraft_3"}]', 'Item 0'),
        ('[{"item_id": "textcraft_-3"}]', 'Item 0'),
        ('[{"item_id": "babyai_3"}]', "Item 0 .*babyai_3.*'textcraft_12'"),
        ('[{"item_id": "textcraft_x"}]', 'Item 0'),
        ('[{"id": 3}]', 'Item 0'),
        ('[{"item_id": "textcraft_\u0663"}]', 'Item 0'),
        (f'[{{"item_id": "textcraft_{"9" * 5000}"}}]', 'Item 0'),
        ('[' * 99999 + ']' * 99999, 'Cannot read task items'),
        ('[7]', 'Item 0'),
        ('{"item_id": "textcraft_3"}', 'no JSON list but dict'),
        ('[{"item_id"', 'Cannot read task items'),
    ],
)
def test_broken_item_file_says_why(tmp_path, text, message):
  path = tmp_path / 'items.json'
  path.write_text(text)
  with pytest.raises(DataError, match=message):
    items.read(path, 'textcraft')


def test_missing_item_file_is_named(tmp_path):
  with pytest.raises(DataError, match='nowhere.json'):
    items.read(tmp_path / 'nowhere.json', 'textcraft')


@pytest.mark.parametrize(
    'fields',
    [{'conversations': []}, {'conversation': []}, {'id': 1, 'split': 'train'}],
)
def test_fields_that_choose_no_task_pass(tmp_path, fields):
  path = tmp_path / 'items.json'
  path.write_text(json.dumps([{'item_id': 'textcraft_12', **fields}]))
  assert items.read(path, 'textcraft') == (12,)


@pytest.mark.parametrize('field', ['weight', 'repeat', 'seed', 'x'])
def test_an_unknown_field_of_an_item_is_refused_by_name(tmp_path, field):
  path = tmp_path / 'items.json'
  item = {'item_id': 'textcraft_12'}
  path.write_text(json.dumps([item, {'item_id': 'textcraft_3', field: 0}]))
  with pytest.raises(DataError, match=f'Item 1 of .* unknown field {field}=0'):
    items.read(path, 'textcraft')
