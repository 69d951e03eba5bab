"""Fields of bodies that the engine has no use for, refused when they ask for something.

A field is here if SGLang 0.5.23 or OpenAI has it, and it changes what is sampled or
answered. Others, such as `user`, ask nothing of the model.
"""

from collections.abc import Collection, Mapping
from typing import Any

# Name -> the values that are accepted, beside null.
Fields = Mapping[str, Collection[Any]]

_ALL: Fields = {
    'return_hidden_states': (False,),
    'return_routed_experts': (False,),
    'return_sampling_mask': (False,),
    'session_params': ({},),
    'custom_logit_processor': (),
    'routed_dp_rank': (0,),
}
# Of /generate.
GENERATE: Fields = {
    **_ALL,
    'input_embeds': (),
    'token_ids_logprob': ([],),
    'image_data': ([],),
    'video_data': ([],),
    'audio_data': ([],),
    'max_thinking_tokens': (),
}
# Of OpenAI's routes.
OPENAI: Fields = {
    **_ALL,
    'functions': ([],),
    'tool_choice': ('none', 'auto'),
    'function_call': ('none', 'auto'),
    'response_format': ({'type': 'text'},),
    'modalities': (['text'],),
    'audio': (),
    'prediction': (),
    'web_search_options': (),
    'reasoning_effort': ('none',),
    'suffix': ('',),
    # SGLang's.
    'chat_template_kwargs': ({},),
    'continue_final_message': (False,),
    'thinking': (),
    'task': (),
    'watermark': ({},),
    'images_config': ({},),
    'video_config': ({},),
    'mm_processor_kwargs': ({},),
    'max_dynamic_patch': (),
    'min_dynamic_patch': (),
    'use_audio_in_video': (False,),
    'data_parallel_rank': (0,),
    'routed_experts_start_len': (0,),
    'sampling_logprobs_mode': (),
    'return_prompt_token_ids': (False,),
    'return_meta_info': (False,),
    'return_cached_tokens_details': (False,),
    'return_spec_tokens_details': (False,),
    'return_input_ids_in_sglext': (False,),
    'return_output_ids_in_sglext': (False,),
    'return_flat_raw_output_top_logprobs': (False,),
}


def refuse(values: Mapping[str, Any], fields: Fields, where: str = '') -> None:
  """Raises ValueError if one of `fields` asks for something.

  Args:
    values: decoded JSON.
    fields: what is not supported.
    where: precedes a name in the message.
  """
  for name, neutral in fields.items():
    value = values.get(name)
    if value is not None and value not in neutral:
      raise ValueError(
          f'{where}{name} is not supported by the embedded engine; leave it out'
          ' or use an SGLang server.'
      )
