r"""Serves a policy over SGLang's and OpenAI's HTTP with the embedded engine.

    python launch.py --config=configs/serve_policy.py:model=smollm2-135m,port=30000
    curl -d '{"text": "The capital of France is"}' \
        -H 'Content-Type: application/json' http://127.0.0.1:30000/generate

    curl -d '{"messages": [{"role": "user", "content": "Hello!"}]}' \
        -H 'Content-Type: application/json' \
        http://127.0.0.1:30000/v1/chat/completions

`model` may be a known name, a Hugging Face directory, a .gguf file, a hub name,
the workdir of a training run, whose newest checkpoint is then served, or its
checkpoints/N.
"""

from ml_collections import ConfigDict, config_dict

from configs.common import begin, parse_arg


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, model='smollm2-135m', port=30000)

  config = begin('serve_policy')
  config.model = dict(name=arg.model, dtype='float32')
  # A slot is max_context positions of cache, 0.1 GB with the default model.
  # More slots than max_running keep the prefixes of more conversations.
  config.sampler = dict(kind='embedded', max_running=16, slots=16)
  config.serve = dict(
      host='127.0.0.1',
      port=arg.port,
      # The id in /v1/models; None: `model` as it stands above. Requests may name
      # any model: there is one.
      name=config_dict.placeholder(str),
      max_context=2048,  # 0: all positions of the model, and the memory for it
      seed=0,
      # Files of one line: `Authorization: Bearer KEY` opens all routes but
      # health and metrics; with a second key, that alone opens control routes.
      api_key_file=config_dict.placeholder(str),
      admin_api_key_file=config_dict.placeholder(str),
      # None: the tokenizer's own; 'chatml' where that is refused.
      chat_template=config_dict.placeholder(str),
      # /health is 503 until what ordinary requests need is compiled: a minute
      # or two, and seconds where `compile_cache` has it. False: the first
      # request of each kind waits instead.
      warmup=True,
  )
  return config
