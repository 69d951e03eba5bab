r"""Makes a Hugging Face folder of a checkpoint, whatever mode trained it.

    python launch.py --config=configs/export.py:run=runs/quickstart \
        --workdir=runs/quickstart/export
    python launch.py --config=configs/export.py \
        --config.checkpoint.path=runs/quickstart/checkpoints/70 \
        --config.export.dtype=bfloat16 --workdir=DIR

The workdir is the folder: weights, tokenizer with chat template, and a model
card. It must be new or empty. transformers and SGLang load it, and so does every
config here that takes model=DIR. It was read again and compared before it got
its name.
"""

from ml_collections import ConfigDict, config_dict

from configs.common import begin, parse_arg


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, run='')

  config = begin('export')
  config.checkpoint = dict(
      path=arg.run,  # workdir of a run, or one of its checkpoints/N
      step=config_dict.placeholder(int),  # N; none: the newest
  )
  config.export = dict(
      dtype='float32',  # or 'bfloat16', or 'source': as the run's own model has
      shard_bytes=10**9,
  )
  return config
