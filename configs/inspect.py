r"""Shows what will be trained: each token of a few episodes, coloured.

    python launch.py --config=configs/inspect.py:episodes=runs/quickstart/episodes/train/000000.jsonl

Prints mask, reward, return, advantage, sampler and old log-probability of every
token, and writes the same as a page beside the file. It reads the arrays that
training left beside the episodes; without them advantages are computed again
with GRPO, and old log-probabilities are missing.
"""

from ml_collections import ConfigDict

from agentrl.config import defaults
from configs.common import parse_arg


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, episodes='', tokenizer='', n=2)

  config = defaults('inspect')
  config.inspect.update(episodes=arg.episodes, num_groups=arg.n)
  if arg.tokenizer:  # else the run's own, found from the episodes' place
    config.inspect.tokenizer = arg.tokenizer
  return config
