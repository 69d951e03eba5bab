"""Sections of a config about updates; imports no jax."""

import dataclasses

from agentrl.fields import field, when, when_set

OPTIMIZERS = ('adamw', 'adamw8bit', 'adafactor', 'muon')
SCHEDULES = ('constant', 'linear', 'cosine')

_ADAM = when('optim.name', 'adamw', 'adamw8bit', 'muon', own=True)
_MUON = when('optim.name', 'muon', own=True)
_ESTIMATES = when_set('gauges.every', 5, 'gauges.every is 0')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Optim:
  """An optimizer behind a clip of the global norm."""

  lr: float = field(1e-6, 'learning rate', gt=0)
  name: str = field('adamw', 'optimizer', one_of=OPTIMIZERS, own=True)
  schedule: str = field(
      'constant',
      'learning rate after the warm-up',
      one_of=SCHEDULES,
      own=True,
  )
  grad_clip: float = field(1.0, 'global norm of the gradient, at most', gt=0)
  weight_decay: float = field(0.0, 'decoupled weight decay', ge=0)
  # Of Adam; in 'muon', of embeddings and norms.
  b1: float = field(
      0.9, "decay of Adam's first moment", ge=0, lt=1, acts_if=_ADAM
  )
  b2: float = field(
      0.999, "decay of Adam's second moment", ge=0, lt=1, acts_if=_ADAM
  )
  momentum: float = field(0.95, "Muon's momentum", ge=0, lt=1, acts_if=_MUON)
  max_tokens: int = field(
      8192, 'tokens of a microbatch: memory, not results', ge=1
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class RlOptim(Optim):
  """An optimizer whose number of updates is known beforehand."""

  warmup_steps: int = field(0, 'updates of linear warm-up', ge=0)
  simulated_s: float | None = field(
      None,
      'seconds that a step waits in place of its updates, which learns nothing:'
      ' measures sampling alone',
      ge=0,
      example=5.0,
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Gauges:
  """Signs of a policy that collapses, and from where on to warn.

  A warning follows three values in a row beyond a limit; None: never. Values of
  healthy runs are in agentrl/rollout/README.md.
  """

  every: int = field(
      5, 'rl steps between estimates of information; 0: never', ge=0
  )
  # The policy no longer hesitates: of two completions one has 0.99.
  min_entropy: float | None = field(
      0.05,
      'nats of the first completion, given its prompt',
      ge=0,
      acts_if=_ESTIMATES,
  )
  # In a run that fell it was there 18 steps ahead; healthy ones stayed below 1.3.
  max_entropy_rise: float | None = field(
      2.0, 'entropy of a token, as a multiple of the first step', gt=1
  )
  # At ten times the rate it was there 23 steps ahead of the fall; in healthy runs
  # no three steps in a row reached a tenth of it.
  max_update_kl: float | None = field(
      0.02, 'nats a token from the policy that sampled to the updated one', gt=0
  )
  # The policy says the same whatever it sees (template collapse). At most it is
  # the logarithm of the tasks, of eight 2.1.
  min_information: float | None = field(
      0.05,
      'nats that the first completion shares with its prompt',
      ge=0,
      acts_if=_ESTIMATES,
  )
  # Twice what healthy runs repeat, which look around by turning.
  max_repeated: float | None = field(
      0.5, 'share of turns that repeat the last action', ge=0, le=1
  )
  # Five times what healthy runs have.
  max_parse_errors: float | None = field(
      0.3, 'share of turns without a valid action', ge=0, le=1
  )
  # Of ten groups one is learnt from, at most.
  max_failed_groups: float | None = field(
      0.9, 'share of groups that are tied without a success', ge=0, le=1
  )
