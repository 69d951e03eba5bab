"""Static fields of /model_info and /server_info."""

from typing import Any

import jax
import jax.numpy as jnp

from agentrl.engine.options import EngineOptions
from agentrl.engine.request import RESERVED, RequestLimits
from agentrl.models.config import TransformerConfig
from agentrl.weights import families

VERSION = 'agentrl-1'
TRAINED_WITH = 'trained_with'  # the one key that SGLang's servers lack
# Keys of /model_info; /server_info has all of them.
MODEL_KEYS = tuple(
    'model_path served_model_name tokenizer_path is_generation'
    ' preferred_sampling_params load_format reasoning_parser tool_call_parser'
    ' disaggregation_mode has_image_understanding has_audio_understanding'
    ' model_type architectures'.split()
)


def describe(
    config: TransformerConfig, options: EngineOptions, limits: RequestLimits
) -> dict[str, Any]:
  """The values by SGLang's names."""
  device = jax.devices()[0]
  trained = options.trained_with
  return {
      'model_path': options.model_path,
      'served_model_name': options.served_name or options.model_path,
      'tokenizer_path': options.model_path if limits.has_tokenizer else None,
      'is_generation': True,
      'preferred_sampling_params': None,
      'load_format': 'auto',
      'reasoning_parser': None,
      'tool_call_parser': None,
      'disaggregation_mode': 'null',
      'has_image_understanding': False,
      'has_audio_understanding': False,
      'model_type': config.family,
      'architectures': [families.FAMILIES[config.family].architecture],
      'version': VERSION,
      'skip_tokenizer_init': not limits.has_tokenizer,
      'context_length': limits.max_len,
      'max_req_input_len': limits.max_len - RESERVED,
      'max_running_requests': options.max_running,
      'max_queued_requests': options.max_queued,
      'stream_interval': options.stream_interval,
      'incremental_streaming_output': options.incremental_streaming_output,
      'max_total_num_tokens': options.slots * options.max_len,
      'dtype': jnp.dtype(options.dtype).name,
      'random_seed': options.seed,
      'enable_deterministic_inference': options.deterministic,
      'device': device.platform,
      # The marketing name; None on a CPU.
      'accelerator': None if device.platform == 'cpu' else device.device_kind,
      **({} if trained is None else {TRAINED_WITH: trained}),
  }
