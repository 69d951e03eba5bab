"""Tests for agentrl.http.strict_json."""

import pytest

from agentrl.http import strict_json


@pytest.mark.parametrize(
    'body, expected',
    [
        (
            b'{"a": [1, -2.5, null, true, "\\u00e9"]}',
            {'a': [1, -2.5, None, True, 'é']},
        ),
        (b'18446744073709551615', 2**64 - 1),
        (b'-9223372036854775808', -(2**63)),
        # Beyond 64 bits: a float, as in orjson.
        (b'18446744073709551616', 2.0**64),
        (b'1' + b'0' * 300, 1e300),
        (b'{"a": [1%s, 1]}' % (b'0' * 30), {'a': [1e30, 1]}),
        (b'"\\ud83d\\ude00"', '\U0001f600'),
    ],
)
def test_values_are_those_of_orjson(body, expected):
  found = strict_json.loads(body)
  assert found == expected and type(found) is type(expected)


@pytest.mark.parametrize(
    'body, words',
    [
        (b'NaN', 'invalid character'),
        (b'[-Infinity]', 'invalid character'),
        (b'1e999', 'out of range'),
        (b'1' * 400, 'beyond any float'),
        (b'{"\\ud83d": 1}', 'truncated'),
        (b'["\\udc00"]', 'surrogate'),
        (b'"\xff"', 'utf-8'),
        ('"a"'.encode('utf-16'), 'invalid character'),
        (b'[' * 10**5, 'nested too deeply'),
        (
            b'1' * 5000,
            'out of range',
        ),  # Python reads no integer of so many digits
        (b'', 'truncated'),
    ],
)
def test_what_orjson_refuses_is_refused(body, words):
  with pytest.raises(ValueError, match=words):
    strict_json.loads(body)
