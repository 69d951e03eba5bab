r"""Shows what will be trained: each token of a few episodes, coloured.

    python launch.py --config=configs/inspect.py:episodes=runs/quickstart/episodes/train/000000.jsonl

Prints mask, reward, return, advantage, sampler and old log-probability of every
token, and writes the same as a page beside the file. It reads the arrays that
training left beside the episodes; without them advantages are computed again
with GRPO, and old log-probabilities are missing.
"""

from ml_collections import ConfigDict, config_dict

from configs.common import begin, parse_arg


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, episodes='', tokenizer='', n=2)

  config = begin('inspect')
  config.inspect = dict(
      episodes=arg.episodes,
      # Of the policy; none: the run's own, found from the episodes' place.
      tokenizer=arg.tokenizer or config_dict.placeholder(str),
      num_groups=arg.n,
      html=config_dict.placeholder(str),  # none: beside the episodes
  )
  return config
