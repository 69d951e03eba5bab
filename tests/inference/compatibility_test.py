"""Tests for agentrl.inference.compatibility."""

import logging as std_logging

import pytest
from absl import logging

from agentrl.errors import EngineError
from agentrl.inference import compatibility
from agentrl.inference.compatibility import Needs

URL = 'http://gpu1:30000'
NEEDS = Needs(max_context=100, vocab_size=32, architecture='LlamaForCausalLM')


@pytest.mark.parametrize(
    'version, warning',
    [
        ('0.5.11', None),
        ('0.5.23', None),
        ('0.5.23.post1', None),
        ('agentrl-1', None),
        ('0.5.24', 'newer than the supported 0.5.11 to 0.5.23'),
        ('1.0.0', 'newer than the supported'),
        ('unknown', 'gives the version unknown'),
        (None, 'gives the version None'),
    ],
)
def test_versions_outside_the_tested_range_are_told(version, warning, caplog):
  logging.use_absl_handler()
  with caplog.at_level(std_logging.WARNING, logger='absl'):
    compatibility.check(URL, {'version': version}, NEEDS)
  assert (warning in caplog.text) if warning else not caplog.text


@pytest.mark.parametrize('version', ['0.5.10', '0.4.9.post2'])
def test_a_server_that_is_too_old_is_refused(version):
  with pytest.raises(EngineError, match=f'runs SGLang {version}; 0.5.11 to'):
    compatibility.check(URL, {'version': version}, NEEDS)


@pytest.mark.parametrize(
    'limits',
    [
        {'context_length': 99},
        # SGLang tells null unless a flag set it, and what it gives to prompts.
        {'context_length': None, 'max_req_input_len': 99},
        # The flag may be long and the cache short.
        {'context_length': 200, 'max_req_input_len': 99},
    ],
)
def test_a_context_that_is_too_short_is_refused(limits):
  with pytest.raises(EngineError, match='99 tokens.*--context-length 106'):
    compatibility.check(URL, {'version': '0.5.23'} | limits, NEEDS)
  enough = {key: value and value + 1 for key, value in limits.items()}
  compatibility.check(URL, {'version': '0.5.23'} | enough, NEEDS)


def test_our_own_server_is_given_its_own_flag():
  info = {'version': 'agentrl-1', 'context_length': 99}
  with pytest.raises(EngineError, match='serve.max_context=106') as caught:
    compatibility.check(URL, info, NEEDS)
  assert '--context-length' not in str(caught.value)


def test_a_server_of_another_model_is_refused():
  info = {'version': '0.5.23', 'architectures': ['Qwen2ForCausalLM']}
  with pytest.raises(EngineError, match='model of Qwen2ForCausalLM, and the'):
    compatibility.check(URL, info, NEEDS)


def test_a_class_that_serves_several_model_types_is_told_apart_by_these():
  """SGLang serves OLMo 3 with the class of OLMo 2, which has no windows."""
  needs = Needs(100, 32, 'Olmo3ForCausalLM', 'Olmo2ForCausalLM', 'olmo3')
  info = {'version': '0.5.23', 'architectures': ['Olmo2ForCausalLM']}
  compatibility.check(URL, info | {'model_type': 'olmo3'}, needs)
  for other in ({'model_type': 'olmo2'}, {}):
    with pytest.raises(EngineError, match='model of Olmo2ForCausalLM, and the'):
      compatibility.check(URL, info | other, needs)
