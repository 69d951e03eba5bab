"""Tests for agentrl.engine.http.bodies: a body, and the requests it means."""

import pytest

from agentrl.engine.http import bodies
from agentrl.engine.http.errors import ContractError
from agentrl.engine.request import RequestLimits

LIMITS = RequestLimits(vocab_size=100, max_len=64, has_tokenizer=True)


def parse(encode=None, limits=LIMITS, **body):
  return bodies.parse(body, limits, encode)


def test_one_prompt_is_one_request_with_sglangs_defaults():
  call = parse(input_ids=[1, 2], rid='a')
  (request,) = call.requests
  assert call.single and not call.stream and call.return_logprob == (False,)
  assert (request.rid, request.tokens) == ('a', (1, 2))
  # The default of 128 never refuses a prompt: as many as fit.
  assert request.params.max_new_tokens == 60
  assert request.logprob_start == -1 and request.salt is None


def test_a_batch_has_a_value_for_each_prompt_or_one_for_all():
  call = parse(
      text=['ab', 'c'],
      encode=lambda text: [ord(c) - 96 for c in text],
      rid='r',
      return_logprob=[True, False],
      logprob_start_len=0,
      top_logprobs_num=3,
      extra_key=['x', 'y'],
      sampling_params=[{'temperature': 0}, {'top_k': 1000}],
  )
  first, second = call.requests
  assert (first.tokens, second.tokens) == ((1, 2), (3,))
  assert (first.rid, second.rid) == ('r_0', 'r_1')
  assert (first.logprob_start, second.logprob_start) == (0, -1)
  assert (first.top_logprobs, second.top_logprobs) == (3, 0)
  assert first.salt and first.salt != second.salt
  assert type(first.params.temperature) is float
  assert second.params.top_k == -1  # all of the vocabulary
  assert not call.single


def test_copies_have_names_and_seeds_of_their_own():
  params = {'n': 3, 'sampling_seed': 5, 'max_new_tokens': 1}
  call = parse(input_ids=[1], rid='a', sampling_params=params)
  again = parse(input_ids=[1], rid='a', sampling_params=params)
  seeds = [request.params.sampling_seed for request in call.requests]
  assert seeds[0] == 5 and len(set(seeds)) == 3
  assert seeds == [request.params.sampling_seed for request in again.requests]
  assert len({request.rid for request in call.requests}) == 3
  assert not call.single


@pytest.mark.parametrize(
    'body, kind, words',
    [
        ({}, ValueError, 'got neither'),
        ({'text': 'a'}, ValueError, 'no tokenizer'),
        ({'input_ids': [[1], []]}, ValueError, 'empty prompt'),
        (
            {'input_ids': [1], 'rid': ['a']},
            ValueError,
            'is a list, and there is one prompt',
        ),
        (
            {'input_ids': [[1], [2]], 'rid': ['a', 'a']},
            ValueError,
            'must be distinct',
        ),
        (
            {'input_ids': [[1], [2]], 'extra_key': ['a']},
            ValueError,
            'extra_key has 1 entries for 2 prompts',
        ),
        (
            {'input_ids': [1], 'token_ids_logprob': [1]},
            ValueError,
            'token_ids_logprob is not supported by the embedded engine',
        ),
    ],
)
def test_prompts_that_cannot_be_served_are_refused(body, kind, words):
  with pytest.raises(kind, match=words):
    parse(**body)


@pytest.mark.parametrize(
    'params, kind, words',
    [
        ({'seed': 1}, ContractError, "unknown field 'seed'; known: beam_width"),
        ({'top_k': 1.5}, ContractError, 'top_k must be int, got float'),
        ({'ignore_eos': 1}, ContractError, 'ignore_eos must be bool, got int'),
        ({'stop': [1]}, ContractError, 'a string or a list of strings'),
        ({'stop_token_ids': [True]}, ContractError, 'a list of integers'),
        ({'logit_bias': {'1': 'x'}}, ContractError, 'object of numbers'),
        ({'logit_bias': {'x': 1}}, ValueError, 'numbers by token id'),
        ({'beam_width': 'x'}, ContractError, 'beam_width must be int'),
        ({'beam_width': 2}, ValueError, 'beam_width is not supported'),
        ({'regex': 'a'}, ValueError, 'sampling_params.regex is not supported'),
        ({'n': 0}, ValueError, r'n must be in \[1, 4096\], got 0'),
        ({'stream_interval': 0}, ValueError, 'at least 1, got 0'),
    ],
)
def test_parameters_that_cannot_be_served_are_refused(params, kind, words):
  with pytest.raises(kind, match=words) as error:
    parse(input_ids=[1], sampling_params=params)
  assert type(error.value) is kind


def test_features_at_their_default_may_be_named():
  neutral = {'regex': '', 'custom_params': {}, 'choice': [], 'beam_width': None}
  parse(input_ids=[1], sampling_params=neutral, image_data=[], routed_dp_rank=0)
