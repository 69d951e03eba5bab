"""Tests for agentrl.engine.request: requests that fit, and those that cannot."""

import dataclasses

import pytest

from agentrl.engine import request as request_lib
from agentrl.engine.request import (
    RESERVED,
    Request,
    RequestLimits,
    SamplingParams,
)

LIMITS = RequestLimits(vocab_size=10, max_len=32, has_tokenizer=False, rows=26)


def asked(size=3, logprob_start=-1, top_logprobs=0, **params):
  return Request(
      'r',
      (1,) * size,
      SamplingParams(**params),
      logprob_start=logprob_start,
      top_logprobs=top_logprobs,
  )


@pytest.mark.parametrize(
    'size, wanted, rows, expected',
    [
        (3, 5, 26, 5),
        (3, 23, 26, 23),
        (3, 24, 26, 23),
        (20, 9, 26, 6),
        (3, None, 26, 23),
        (3, None, None, 27),  # two positions of the context stay empty
    ],
)
def test_a_limit_is_cut_to_the_room_that_there_is(size, wanted, rows, expected):
  limits = dataclasses.replace(LIMITS, rows=rows)
  fitted = request_lib.fit(asked(size, max_new_tokens=wanted), limits)
  assert fitted.params.max_new_tokens == expected


@pytest.mark.parametrize(
    'change, words',
    [
        (dict(size=0), 'at least one token'),
        (dict(size=32 - RESERVED), 'prompt of 26 tokens is not shorter than'),
        (dict(max_new_tokens=30), 'Requested 33 tokens'),
        (dict(logprob_start=4), r'logprob_start_len must be in \[-1, 3\]'),
        (dict(top_logprobs=129), r'top_logprobs_num must be in \[0, 128\]'),
        (dict(max_new_tokens=-1), 'max_new_tokens must be at least 0, got -1'),
        (dict(min_new_tokens=6), r'min_new_tokens must be in .*=5\], got 6'),
        (dict(sampling_seed=2**63), 'sampling_seed must be a number of 64'),
        (dict(temperature=-1.0), 'temperature must be at least 0, got -1.0'),
        (dict(temperature=float('nan')), 'temperature must'),
        (dict(top_p=0.0), r'top_p must be in \(0, 1\]'),
        (dict(top_k=0), 'top_k must be -1 or at least 1, got 0'),
        (dict(min_p=1.5), r'min_p must be in \[0, 1\]'),
        (dict(frequency_penalty=3.0), 'frequency_penalty must be in'),
        (dict(presence_penalty=-3.0), 'presence_penalty must be in'),
        (dict(repetition_penalty=0.0), 'repetition_penalty must be in'),
        (dict(logit_bias=((10, 1.0),)), r'ids in \[0, 9\].*got {10: 1.0}'),
        (dict(logit_bias=((1, 1e31),)), 'values in'),
        (dict(stop_token_ids=(10,)), 'Stop id 10 is outside the vocabulary'),
        (dict(stop=('a',)), 'need a tokenizer'),
        (
            dict(min_new_tokens=1, stop_token_ids=tuple(range(10))),
            'leaves nothing to sample',
        ),
    ],
)
def test_what_cannot_be_served_is_refused(change, words):
  request = asked(**({'max_new_tokens': 5} | change))
  with pytest.raises(ValueError, match=words):
    request_lib.check(request, LIMITS)


def test_stop_strings_are_few_and_not_empty():
  limits = dataclasses.replace(LIMITS, has_tokenizer=True)
  for stop in (('a',) * 33, ('',)):
    with pytest.raises(ValueError, match='at most 32 strings, none of them'):
      request_lib.check(asked(max_new_tokens=1, stop=stop), limits)
