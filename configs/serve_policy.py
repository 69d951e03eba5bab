r"""Serves a policy over SGLang's and OpenAI's HTTP with the embedded engine.

    python launch.py --config=configs/serve_policy.py:model=smollm2-135m,port=30000
    curl -d '{"text": "The capital of France is"}' \
        -H 'Content-Type: application/json' http://127.0.0.1:30000/generate

    curl -d '{"messages": [{"role": "user", "content": "Hello!"}]}' \
        -H 'Content-Type: application/json' \
        http://127.0.0.1:30000/v1/chat/completions

`model` may be a known name, a Hugging Face directory, a .gguf file, a hub name,
the workdir of a training run, whose newest checkpoint is then served, or its
checkpoints/N or checkpoints/best. A run brings its dtype, its max_context and its
chat template, and the server tells how it was trained: mode 'evaluate' of its URL, or
of `api=URL/v1`, takes the rest from that.
"""

from ml_collections import ConfigDict

from agentrl.config import defaults
from configs.common import parse_arg


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, model='smollm2-135m', port=30000)

  config = defaults('serve_policy')
  config.model.name = arg.model
  # A slot is max_context positions of cache, 0.1 GB with the default model.
  # More slots than max_running keep the prefixes of more conversations.
  config.sampler = dict(max_running=16, slots=16)
  config.serve.port = arg.port
  return config
