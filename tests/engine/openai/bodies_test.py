"""Tests for agentrl.engine.openai.bodies: the /generate body that is meant."""

import pytest

from agentrl.engine.http import unsupported
from agentrl.engine.openai import bodies
from agentrl.text.chat import ChatFormat
from agentrl.types import Message
from tests.engine.talking import WORDS

CHAT = ChatFormat(WORDS)
HELLO = [{'role': 'user', 'content': 'the cat'}]


def test_a_completion_has_openais_default_limit_and_sglangs_names():
  body = bodies.completion(
      {'prompt': 'x', 'seed': 3, 'min_tokens': 1, 'logprobs': 2, 'rid': 'a'}
  )
  assert body == {
      'text': 'x',
      'rid': 'a',
      'sampling_params': {
          'sampling_seed': 3,
          'min_new_tokens': 1,
          'max_new_tokens': 16,
      },
      'return_logprob': True,
      'top_logprobs_num': 2,
  }
  assert bodies.completion({'prompt': [1, 2]})['input_ids'] == [1, 2]


def test_echo_scores_the_prompt_and_may_sample_nothing():
  body = bodies.completion(
      {'prompt': 'x', 'echo': True, 'logprobs': 0, 'max_tokens': 0}
  )
  assert body['logprob_start_len'] == 0 and body['return_logprob']
  assert body['sampling_params']['max_new_tokens'] == 0


def test_a_chat_is_rendered_and_may_use_the_context():
  body = bodies.chat({'messages': HELLO, 'stop_token_ids': [7]}, CHAT, 100)
  ids = CHAT.prompt([Message('user', 'the cat')])
  assert body['input_ids'] == ids
  params = body['sampling_params']
  assert params['max_new_tokens'] == 100 - len(ids)
  assert params['stop_token_ids'] == [7, *CHAT.stop_ids]
  short = {'messages': HELLO, 'max_tokens': 9, 'max_completion_tokens': 4}
  params = bodies.chat(short, CHAT, 100)['sampling_params']
  assert params['max_new_tokens'] == 4  # the newer name counts


def test_roles_and_parts_are_read_as_text():
  parts = [{'type': 'text', 'text': 'the '}, {'type': 'text', 'text': 'cat'}]
  messages = [{'role': 'developer', 'content': parts}]
  found = bodies.chat({'messages': messages}, CHAT, 100)['input_ids']
  assert found == CHAT.prompt([Message('system', 'the cat')])


@pytest.mark.parametrize(
    'change, words',
    [
        ({'messages': []}, 'at least one message'),
        ({'messages': ['x']}, r'messages\[0\] must be an object'),
        ({'messages': [{'role': 'x', 'content': 'x'}]}, 'known: system'),
        (
            {'messages': [{'role': 'tool', 'content': 'x'}]},
            r'messages\[0\] is of a tool, but the request has none',
        ),
        (
            {'messages': [HELLO[0] | {'tool_calls': [1]}]},
            r'messages\[0\] is of a tool, but the request has none',
        ),
        (
            {'messages': [HELLO[0] | {'function_call': {'name': 'f'}}]},
            'give it as tool_calls',
        ),
        ({'messages': [{'role': 'user'}]}, 'must have a text'),
        (
            {'messages': [{'role': 'user', 'content': [{'type': 'image'}]}]},
            'has a part that is no text',
        ),
        ({'tool_choice': 'required'}, 'tool_choice is not supported'),
        ({'stream': 1}, 'stream must be a boolean, got 1'),
        ({'model': 3}, 'model must be a name'),
        ({'logprobs': 3}, 'logprobs must be a boolean in a chat'),
        ({'top_logprobs': 3}, 'has no effect without logprobs'),
        ({'max_tokens': 0}, 'max_tokens must be a positive number, got 0'),
        ({'input_ids': [True]}, 'input_ids must be a list of token ids'),
        ({'echo': True}, 'echo is for /v1/completions'),
        ({'custom_logit_processor': 'x'}, 'custom_logit_processor is not'),
        ({'watermark': {'key': 1}}, 'watermark is not supported'),
        ({'return_hidden_states': 'last'}, 'return_hidden_states is not'),
        ({'max_new_tokens': 5}, 'name of /generate; here it is max_tokens'),
        ({'min_new_tokens': 5}, 'here it is min_tokens'),
        ({'sampling_seed': 5}, 'here it is seed'),
    ],
)
def test_what_cannot_be_served_is_refused(change, words):
  with pytest.raises(ValueError, match=words):
    bodies.chat({'messages': HELLO} | change, CHAT, 100)


@pytest.mark.parametrize('name', unsupported.OPENAI)
def test_what_has_no_effect_is_refused_and_may_be_named_at_its_default(name):
  with pytest.raises(ValueError, match=f'{name} is not supported'):
    bodies.completion({'prompt': 'x', name: 'all of it'})
  for neutral in (None, *unsupported.OPENAI[name]):
    bodies.completion({'prompt': 'x', name: neutral})
