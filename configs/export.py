r"""Makes a Hugging Face folder of a checkpoint, whatever mode trained it.

    python launch.py --config=configs/export.py:run=runs/quickstart \
        --workdir=runs/quickstart/export
    python launch.py --config=configs/export.py \
        --config.checkpoint.path=runs/quickstart/checkpoints/70 \
        --config.export.dtype=bfloat16 --workdir=DIR
    python launch.py --config=configs/export.py:run=runs/lora \
        --config.export.adapter=True --workdir=DIR  # the adapter, for peft

The workdir is the folder: weights, tokenizer with chat template, and a model
card. It must be new or empty. transformers and SGLang load it, and so does every
config here that takes model=DIR. It was read again and compared before it got
its name.
"""

from ml_collections import ConfigDict

from agentrl.config import defaults
from configs.common import parse_arg


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, run='')

  config = defaults('export')
  # The workdir of a run, whose newest checkpoint it is, or its checkpoints/N
  # or checkpoints/best.
  config.checkpoint.path = arg.run
  return config
