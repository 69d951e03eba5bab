"""Tests for agentrl.envs.searchqa.scoring."""

import pytest
from hypothesis import given, strategies as st

from agentrl.envs.searchqa import scoring


@pytest.mark.parametrize(
    'text, normal',
    [
        ('The Eiffel Tower.', 'eiffel tower'),
        ('  a  cat,\tan owl\n', 'cat owl'),
        ('Theatre', 'theatre'),  # "the" only as a word
        ('A-ha', 'aha'),  # punctuation goes before articles
        ('U.S.', 'us'),
        ("N'Djamena", 'ndjamena'),
        ('.fr', 'fr'),
        ('2,381,740 sq km', '2381740 sq km'),
        ('3.50', '350'),
        ('São TOMÉ', 'são tomé'),  # accents stay
        ('STRAẞE', 'straße'),
        ('«Kassaman»', '«kassaman»'),  # only ASCII punctuation goes
        ('The', ''),
    ],
)
def test_normalising_is_squads(text, normal):
  assert scoring.normalise(text) == normal


@pytest.mark.parametrize(
    'answer, golds, right',
    [
        ('paris', ['Paris'], True),
        ('The Netherlands!', ['Netherlands', 'Holland'], True),
        ('holland', ['Netherlands', 'Holland'], True),
        ('Paris, France', ['Paris'], False),
        ('Sao Tome', ['São Tomé'], False),
        ('Sao Tome', ['São Tomé', 'Sao Tome'], True),
        ('1,000', ['1000'], True),
        ('1000.0', ['1000'], False),
        ('', ['Paris'], False),
        # Golds of which normalising would leave nothing.
        ('a', ['A'], True),
        ('A.', ['A'], False),
        ('the', ['A'], False),
        ('', ['A'], False),
        ('+', ['+'], True),
        ('-', ['+'], False),
        ('The The', ['The The'], True),
    ],
)
def test_exact_match_is_with_any_gold_after_normalising(answer, golds, right):
  assert scoring.exact_match(answer, golds) is right


@pytest.mark.parametrize(
    'answer, golds, score',
    [
        ('Marie Curie', ['Pierre and Marie Curie'], 2 * 1 * 0.5 / 1.5),
        # Two of three said, two of two wanted: P = 2/3, R = 1.
        ('the great Marie Curie', ['Marie Curie'], 0.8),
        # A word counts as often as both have it: P = 1/3, R = 1/2.
        ('paris paris paris', ['paris texas'], 0.4),
        ('Lyon', ['Paris'], 0.0),
        ('Lyon', ['Paris', 'Lyon'], 1.0),
        ('Curie Marie', ['Marie Curie'], 1.0),
        ('the', ['a'], 0.0),
        ('A', ['a'], 1.0),
        ('', ['+'], 0.0),
        ('', ['Paris'], 0.0),
    ],
)
def test_f1_is_of_words_with_the_best_gold(answer, golds, score):
  assert scoring.f1(answer, golds) == pytest.approx(score)


@given(st.text(), st.text())
def test_f1_is_symmetric_and_one_for_an_exact_match(one, other):
  assert scoring.f1(one, [other]) == scoring.f1(other, [one])
  assert 0 <= scoring.f1(one, [other]) <= 1
  assert scoring.f1(one, [one]) == 1 and scoring.exact_match(one, [one])
