"""Tests for plain texts as webarena-verified compares them."""

import json

import pytest
from hypothesis import given, strategies as st

from agentrl.envs.webarena.public import texts

TEXTS = st.text(max_size=30)


@pytest.mark.parametrize(
    'text,plain',
    [
        ('Quest  Lumaflex™ Band', 'quest lumaflex band'),
        (' Café\n Crème ', 'cafe creme'),
        ('naïve – one', 'naive - one'),
        ('twenty-one', 'twenty one'),
        ('2023-06-15', '2023-06-15'),  # between digits a hyphen stays
        ('STRASSE straße', 'strasse strasse'),
        ('‘one’ “two”…', '\'one\' "two"...'),
        ('5 €', '5 eur'),
        ('a\u200bb\x00c', 'abc'),
        ('done 🎉', 'done'),
        ('日本', '日本'),
        ('½', '1/2'),
        ('', ''),
    ],
)
def test_plain(text, plain):
  assert texts.plain(text) == plain


@given(TEXTS)
def test_a_plain_text_is_one_line_without_outer_spaces(text):
  plain = texts.plain(text)
  assert plain == ' '.join(plain.split())
  assert texts.plain(f'  {text}\n') == plain


@pytest.mark.parametrize(
    'expected,actual,equal',
    [
        ('ann', 'ann', True),
        ('ann', '"ann".', True),
        ('ann!', 'ann', True),
        ('ann', 'ann lee', False),
        ('a.b', 'ab', False),
        ('', '', True),
        ('.', '', True),
    ],
)
def test_same(expected, actual, equal):
  assert texts.same(expected, actual) is equal
  assert texts.same(actual, expected) is equal


@pytest.mark.parametrize(
    'value,pattern',
    [('^a.*$', True), ('^$', True), ('a$', False), ('^a', False), (5, False),
     ('^', False), ('', False), (None, False)],
)  # fmt: skip
def test_is_pattern(value, pattern):
  assert texts.is_pattern(value) is pattern


@pytest.mark.parametrize(
    'one,other,alike',
    [
        ('Carnegie Mellon University', 'carnegie mellon university', True),
        ('University of Pittsburgh', 'Pittsburgh, University of', True),
        ('New York', 'New Yorck', True),
        ('New York', 'Boston', False),
        ('abcde', 'abcdx', True),  # 2 * 4 / 10, the limit
        (f'{"a" * 15}bcde', f'{"a" * 15}wxyz', False),  # 30 / 38 = 0.789
        ('', '', True),
        ('', 'a', False),
        ('...', '!', True),  # no word on either side
    ],
)
def test_names_of_places_are_alike(one, other, alike):
  assert texts.alike(one, other) is alike


@given(TEXTS, TEXTS)
def test_alike_is_symmetric_and_reflexive(one, other):
  assert texts.alike(one, one)
  assert texts.alike(one, other) == texts.alike(other, one)


@pytest.mark.parametrize(
    'text,items', [('b, a', ('a', 'b')), (' a ,,', ('a',)), ('a,a', ('a', 'a'))]
)
def test_items(text, items):
  assert texts.items(text) == items


@pytest.mark.parametrize('text', ['', ',', ' , '])
def test_no_items_are_refused(text):
  with pytest.raises(ValueError, match='empty'):
    texts.items(text)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | TEXTS,
        lambda inner: st.lists(inner, max_size=3)
        | st.dictionaries(TEXTS, inner, max_size=3),
        max_leaves=8,
    )
)
def test_json_is_compared_by_its_value(value):
  spaced = json.dumps(value, indent=2, ensure_ascii=False)
  assert texts.json_text(spaced) == texts.json_text(json.dumps(value))
  assert json.loads(texts.json_text(spaced)) == value


@pytest.mark.parametrize(
    'one,other',
    [
        ('# T\n\n- a\n- b', '#  T\r\n\r\n\r\n\r\n* a  \r\n+ b\n'),
        ('- a\n    * b', '- a\n  - b'),
        ('[a b](http://x.test/)', '[ a\tb ]( http://x.test/ )'),
    ],
)
def test_markdown_has_one_form(one, other):
  assert texts.markdown(one) == texts.markdown(other)


@pytest.mark.parametrize(
    'one,other', [('# T', '## T'), ('- a\n- b', '- b\n- a'), ('a', 'A')]
)
def test_what_markdown_says_counts(one, other):
  assert texts.markdown(one) != texts.markdown(other)
