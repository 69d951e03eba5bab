"""Tests for agentrl.http.surrogates."""

import json

from hypothesis import example, given, strategies as st

from agentrl.http import surrogates


@given(
    st.text(st.characters(blacklist_categories=()) | st.sampled_from('\\ud8"'))
)
@example('\\ud800')
@example('\ud83d\ude00 \U0001f600 \ud83d \ude00\\')
def test_only_halves_change(text):
  mended = surrogates.mend(json.dumps(text).encode())
  # Python joins what JSON's escapes of two halves mean.
  whole = json.loads(json.dumps(text))
  expected = ''.join(
      '\ufffd' if '\ud800' <= c <= '\udfff' else c for c in whole
  )
  assert json.loads(mended) == expected
