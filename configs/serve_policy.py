r"""Serves a policy over SGLang's HTTP protocol with the embedded engine.

    python launch.py --config=configs/serve_policy.py:model=smollm2-135m,port=30000
    curl -d '{"text": "The capital of France is"}' \
        -H 'Content-Type: application/json' http://127.0.0.1:30000/generate

`model` may be a known name, a Hugging Face directory, a .gguf file, a hub name
or the workdir of a training run, whose newest checkpoint is then served.
"""

from ml_collections import ConfigDict

from configs.common import parse_arg


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, model='smollm2-135m', port=30000)

  config = ConfigDict()
  config.mode = 'serve_policy'
  config.model = dict(name=arg.model, dtype='float32')
  config.sampler = dict(kind='embedded', max_running=16, slots=0)
  config.serve = dict(
      host='127.0.0.1',
      port=arg.port,
      max_context=2048,  # 0: all positions of the model, and the memory for it
      seed=0,
  )
  return config
