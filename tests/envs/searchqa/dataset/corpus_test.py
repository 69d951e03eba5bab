"""Tests for agentrl.envs.searchqa.dataset.corpus; the digest is in dataset_test."""

import pytest

from agentrl.envs.searchqa.dataset import corpus


def test_passages_are_single_lines_of_a_readable_length(passages):
  for title, found in passages.items():
    for passage in found:
      assert title == passage.title and title.strip()
      assert passage.text and '\n' not in title + passage.text
      # A field is cut after 150 words; a title and its names come before it.
      assert len(passage.text.split()) < 190, title


@pytest.mark.parametrize(
    'title, text',
    [
        ('Radium', 'Radium is the chemical element with the symbol Ra and the'),
        ('France', 'France is in Europe. Its capital is Paris.'),
        ('France: Currency', 'The currency of France is the euro (EUR).'),
        (
            'France: Telephone calling code',
            'The telephone calling code of France is +33.',
        ),
    ],
)
def test_records_are_told_in_sentences(passages, title, text):
  assert any(passage.text.startswith(text) for passage in passages[title])


def test_a_long_field_is_cut_between_sentences():
  text = ' '.join(f'Sentence {i} has five words.' for i in range(100))
  chunks = list(corpus._chunks(text))
  assert len(chunks) > 2 and ' '.join(chunks) == text
  assert all(chunk.endswith('.') for chunk in chunks)
