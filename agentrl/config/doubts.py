"""Settings that a run takes, and that are hardly meant."""

import math
from collections.abc import Iterator

from agentrl import envs
from agentrl.config import mixture
from agentrl.config.modes import Learning, Train
from agentrl.config.sections import Warmstart
from agentrl.training.options import RlOptim


def find(config: Learning) -> Iterator[str]:
  """Sentences for the start of a run.

  Args:
    config: that was read and checked.
  """
  if not isinstance(config, Train):
    return
  algo, warm = config.algo, config.warmstart
  critic = algo.critic_settings
  frozen = critic.warmup * algo.updates if critic is not None else 0
  updates = config.num_steps * algo.updates - frozen
  yield from _warmup('optim', config.optim, updates)
  if warm.episodes:
    most = math.ceil(warm.episodes / warm.minibatch_size) * warm.epochs
    yield from _warmup('warmstart', warm, most)
  if config.rollout.ahead and config.sampler.deterministic:
    yield (
        f'With rollout.ahead={config.rollout.ahead} the same command repeats no'
        ' run, for all sampler.deterministic: which weights sample a turn'
        ' depends on how fast it is played. rollout.recorded with'
        ' rollout.resample repeats it from its record.'
    )
  for member in mixture.members(config):
    yield from _waits(member.config)
  if config.mixture:
    yield from _shares(config)


def _warmup(
    section: str, rate: RlOptim | Warmstart, updates: int
) -> Iterator[str]:
  """A warm-up that outlasts the updates of its phase."""
  if rate.warmup_steps > updates:
    share = updates / rate.warmup_steps
    yield (
        f'{section}.warmup_steps={rate.warmup_steps} is longer than all'
        f' {updates} updates: the learning rate ends at {share * rate.lr:.3g}'
        f' and never reaches {section}.lr={rate.lr:g}.'
    )


def _waits(config: Learning) -> Iterator[str]:
  """Episodes that wait for what their environment has too few of."""
  spec = envs.get(config.env.name)
  option = spec.slots_option
  if option is None or config.env.urls:
    return
  slots = spec.check_options(config.env.options)[option]
  episodes = config.rollout.concurrency
  if episodes > slots:
    yield (
        f'rollout.concurrency={episodes} episodes share env.options.{option}='
        f'{slots}: a reset that waits longer than env.timeout_s='
        f'{config.env.timeout_s:g} s fails. Set rollout.concurrency={slots}.'
    )


def _shares(config: Train) -> Iterator[str]:
  """Members of a mixture that have less than one task of their own."""
  members = mixture.members(config)
  whole = sum(member.weight for member in members)
  tasks = config.num_steps * config.rollout.tasks_per_step
  parts = {'task': tasks, 'episode of the expert': config.warmstart.episodes}
  for member in filter(lambda member: member.weight, members):
    for unit, count in parts.items():
      share = count * member.weight / whole
      if 0 < share < 1:
        yield (
            f'mixture.{member.name}.weight={member.weight:g} of {whole:g} is'
            f" {share:.2g} of the run's {count} {unit}s: at most one is played"
            ' there. Raise the weight, or make it 0 to evaluate there alone.'
        )
