"""What the config of mode 'train' may say: online reinforcement learning.

As in `settings`: one dataclass a section, and what cannot act is refused.
"""

import dataclasses
from typing import Any

from ml_collections import ConfigDict

from agentrl import schedules
from agentrl.algos import ONLINE, policy
from agentrl.errors import ConfigError
from agentrl.models import value_head
from agentrl.modes import reading, settings
from agentrl.modes.reading import above, at_least, one_of
from agentrl.ops import aggregate, kl
from agentrl.schedules import HORIZONS, Horizon


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rollout(settings.Limits):
  """Collecting episodes to train on."""

  tasks_per_step: int
  group_size: int
  temperature: float = 1.0
  top_p: float = 1.0
  top_k: int = -1

  def __post_init__(self):
    super().__post_init__()
    for name in ('tasks_per_step', 'group_size'):
      at_least(f'rollout.{name}', getattr(self, name), 1)
    if self.temperature <= 0:
      raise ConfigError(
          'Training samples at a temperature above 0, got'
          f' rollout.temperature={self.temperature}.'
      )
    if self.top_p != 1.0 or self.top_k != -1:
      raise ConfigError(
          f'rollout.top_p={self.top_p} and top_k={self.top_k} would sample from'
          ' another distribution than the log-probabilities describe; train'
          ' with top_p=1.0 and top_k=-1.'
      )


@dataclasses.dataclass(frozen=True)
class Critic:
  """PPO's critic and its optimiser."""

  kind: str = 'own'  # 'own' trunk | 'shared': a head on the policy's
  lr: float = 1e-5
  grad_clip: float = 1.0
  warmup: int = 0  # rl steps in which only the critic learns

  def __post_init__(self):
    one_of('algo.critic.kind', self.kind, value_head.KINDS)
    above('algo.critic.lr', self.lr, 0)
    above('algo.critic.grad_clip', self.grad_clip, 0)
    at_least('algo.critic.warmup', self.warmup, 0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Algo:
  """The algorithm: what all of them share, and its own `knobs`.

  In a config the knobs (fields of the algorithm's `Knobs`) stand beside the
  fields below. See `training.policy_update.UpdatePlan` for what those mean.
  """

  name: str
  epochs: int = 1  # passes over a collection
  minibatches: int = 1  # updates a pass
  ratio: str = 'old'  # 'old' (recomputed) | 'sampler'
  kl_coef: float = 0.0  # weight of the KL to the starting policy
  kl_in: str = 'loss'  # 'loss' | 'reward'
  kl_target: float | None = None  # steers the weight; None keeps it
  kl_horizon: int = 10_000  # episodes
  ties: str = 'keep'  # 'keep' | 'mask' | 'refill'
  refill_rounds: int = 3
  truncated: str = 'keep'  # 'keep' | 'mask'
  overlong_buffer: int = 0  # tokens
  critic: Critic | None = None
  knobs: policy.Knobs

  def __post_init__(self):
    at_least('algo.epochs', self.epochs, 1)
    at_least('algo.minibatches', self.minibatches, 1)
    one_of('algo.ratio', self.ratio, ('old', 'sampler'))
    one_of('algo.kl_in', self.kl_in, ('loss', 'reward'))
    one_of('algo.ties', self.ties, ('keep', 'mask', 'refill'))
    one_of('algo.truncated', self.truncated, ('keep', 'mask'))
    for name in ('kl_coef', 'overlong_buffer'):
      at_least(f'algo.{name}', getattr(self, name), 0)
    for name in ('refill_rounds', 'kl_horizon'):
      at_least(f'algo.{name}', getattr(self, name), 1)
    if self.kl_target is not None:
      above('algo.kl_target', self.kl_target, 0)
    if self.ties != 'refill':
      self._idle('refill_rounds', reason="algo.ties is not 'refill'")
    if not self.kl_coef:
      reason = 'algo.kl_coef=0 leaves the reference out'
      self._idle('kl_in', 'kl_target', 'kl_estimator', reason=reason)
    if self.kl_target is None:
      self._idle('kl_horizon', reason='algo.kl_target is not set')
    self._check_knobs()

  @property
  def kl(self) -> str | None:
    """Where the KL to the reference acts, if it does."""
    return self.kl_in if self.kl_coef else None

  @property
  def module(self) -> Any:
    return ONLINE[self.name]

  def _check_knobs(self):
    knobs = self.knobs
    one_of('algo.kl_estimator', knobs.kl_estimator, kl.ESTIMATORS)
    one_of('algo.surrogate', knobs.surrogate, ('clip', 'cispo'))
    one_of('algo.ratio_level', knobs.ratio_level, ('token', 'sequence'))
    one_of('algo.aggregation', knobs.aggregation, aggregate.MODES)
    above('algo.clip_low', knobs.clip_low, 0)
    above('algo.clip_high', knobs.clip_high, 0)
    at_least('algo.entropy_coef', knobs.entropy_coef, 0)
    if knobs.clip_low > 1 or (
        knobs.clip_low == 1 and knobs.surrogate == 'clip'
    ):
      raise ConfigError(
          f'algo.clip_low={knobs.clip_low} never clips: a ratio is above 0.'
      )
    if knobs.dual_clip is not None:
      above('algo.dual_clip', knobs.dual_clip, 1)
    if knobs.surrogate == 'cispo':
      self._idle('dual_clip', reason="algo.surrogate='cispo' clips no token")
    if knobs.aggregation == 'constant':
      if not knobs.aggregation_constant or knobs.aggregation_constant <= 0:
        raise ConfigError(
            "algo.aggregation='constant' divides by algo.aggregation_constant:"
            ' set the tokens of a long episode.'
        )
    else:
      self._idle(
          'aggregation_constant', reason="algo.aggregation is not 'constant'"
      )
    if (knobs.sequence_low is None) != (knobs.sequence_high is None):
      raise ConfigError(
          'algo.sequence_low and algo.sequence_high are one range: set both.'
      )
    if knobs.sequence_low is not None:
      above('algo.sequence_high', knobs.sequence_high, knobs.sequence_low)
    if knobs.importance_cap is not None:
      above('algo.importance_cap', knobs.importance_cap, 0)
    if self.ratio == 'sampler':
      self._idle(
          *('importance_cap', 'sequence_low', 'sequence_high'),
          reason="algo.ratio='sampler' takes the sampler's word already",
      )
    elif self.epochs * self.minibatches == 1:
      self._idle(
          *('clip_low', 'clip_high', 'dual_clip', 'surrogate', 'ratio_level'),
          reason=(
              'one update a collection keeps every ratio at 1; set'
              ' algo.minibatches or algo.epochs above 1, or'
              " algo.ratio='sampler'"
          ),
      )
    for name in ('gamma', 'lam'):
      value = getattr(knobs, name, 1.0)
      if not 0 <= value <= 1:
        raise ConfigError(f'algo.{name} must be in [0, 1], got {value}.')
    if getattr(knobs, 'gamma', 1.0) == 0 and hasattr(knobs, 'lam'):
      self._idle('lam', reason='algo.gamma=0 ends every trace')
    if getattr(knobs, 'ddof', 1) not in (0, 1):
      raise ConfigError(f'algo.ddof must be 0 or 1, got {knobs.ddof}.')
    if hasattr(knobs, 'step_weight'):
      at_least('algo.step_weight', knobs.step_weight, 0)
      if not knobs.step_weight:
        self._idle('gamma', reason='algo.step_weight=0 leaves turns out')
    if hasattr(knobs, 'value_clip'):
      above('algo.value_coef', knobs.value_coef, 0)
      if knobs.value_clip is not None:
        above('algo.value_clip', knobs.value_clip, 0)
      if self.epochs * self.minibatches == 1:
        self._idle(
            'value_clip',
            reason=(
                'one update a collection starts where the old values are; set'
                ' algo.minibatches or algo.epochs above 1'
            ),
        )
    if not getattr(knobs, 'normalise_std', True):
      self._idle('ddof', reason='algo.normalise_std=False divides by nothing')
    if getattr(knobs, 'group_baseline', False):
      self._idle('gamma', reason='algo.group_baseline compares whole returns')

  def _idle(self, *names: str, reason: str):
    """Refuses fields that were set although they cannot act."""
    for name in names:
      owner = self if hasattr(self, name) else self.knobs
      reading.idle(owner, 'algo', (name,), reason)


@dataclasses.dataclass(frozen=True)
class Train:
  """The whole of a `mode='train'` config."""

  seed: int
  num_steps: int
  env: settings.Env
  agent: settings.Agent
  model: settings.Model
  mesh: settings.Mesh
  sampler: settings.Sampler
  rollout: Rollout
  horizon: Horizon
  algo: Algo
  optim: settings.Optim
  warmstart: settings.Warmstart
  eval: settings.Eval
  checkpoint: settings.Checkpoint
  # Keeps compiled programs for the next start; see `compile_cache.use`.
  compile_cache: str | None = None

  def __post_init__(self):
    at_least('num_steps', self.num_steps, 1)
    settings.check_push(self.model, self.sampler)
    rollout, algo = self.rollout, self.algo
    compares = algo.module.GROUPS or getattr(
        algo.knobs, 'group_baseline', False
    )
    if compares and rollout.group_size < 2:
      raise ConfigError(
          f'{algo.name} compares the episodes of a group: rollout.group_size='
          f'{rollout.group_size} gives every episode the advantage 0. Use at'
          ' least 2.'
      )
    if algo.ties != 'keep' and rollout.group_size < 2:
      raise ConfigError(
          f'algo.ties={algo.ties!r} leaves out groups of equal returns: with'
          f' rollout.group_size={rollout.group_size} that is every group. Use'
          ' at least 2.'
      )
    if algo.critic is not None and algo.critic.warmup >= self.num_steps:
      raise ConfigError(
          f'algo.critic.warmup={algo.critic.warmup} leaves none of the'
          f' num_steps={self.num_steps} to the policy.'
      )
    if 'reference' in self.mesh.offload and not algo.kl_coef:
      raise ConfigError(
          "mesh.offload='reference' has no effect: algo.kl_coef=0 leaves the"
          ' reference out.'
      )
    if algo.overlong_buffer >= rollout.max_context:
      raise ConfigError(
          f'algo.overlong_buffer={algo.overlong_buffer} must be shorter than'
          f' rollout.max_context={rollout.max_context}.'
      )
    rows = rollout.tasks_per_step * rollout.group_size
    if algo.minibatches > rows:
      raise ConfigError(
          f'algo.minibatches={algo.minibatches} exceed the {rows} episodes of a'
          ' collection (rollout.tasks_per_step * rollout.group_size).'
      )
    if self.eval.every and not self.eval.num_tasks:
      raise ConfigError(
          f'eval.every={self.eval.every} has no effect with eval.num_tasks=0.'
      )


def read_algo(section: Any) -> Algo:
  """The algorithm that `config.algo` describes.

  Raises:
    ConfigError: a field is unknown, refused, or acts in other algorithms only.
  """
  values = dict(section)
  name = values.get('name')
  if name is None:
    raise ConfigError('The config lacks algo.name.')
  one_of('algo.name', name, tuple(ONLINE))
  names = lambda cls: {field.name for field in dataclasses.fields(cls)}
  own = names(ONLINE[name].Knobs)
  for key in sorted(values.keys() - own - names(Algo)):
    others = [n for n, m in ONLINE.items() if key in names(m.Knobs)]
    if others:
      raise ConfigError(
          f'algo.{key} has no effect with algo.name={name!r}; it acts in'
          f' {", ".join(others)}.'
      )
  critic = values.pop('critic', None)
  if ONLINE[name].CRITIC:
    critic = reading.read(Critic, critic or {}, 'algo.critic')
  elif critic is not None:
    raise ConfigError(
        f'algo.critic has no effect with algo.name={name!r}: it has no critic.'
    )
  knobs = {key: values.pop(key) for key in own & values.keys()}
  knobs = reading.read(ONLINE[name].Knobs, knobs, 'algo')
  if 'knobs' in values:
    raise ConfigError(
        'Write the knobs of an algorithm into config.algo itself.'
    )
  return reading.read(Algo, values | {'critic': critic, 'knobs': knobs}, 'algo')


def read_horizon(section: Any) -> Horizon:
  """The schedule that `config.horizon` describes."""
  values = dict(section)
  kind = values.pop('kind', None)
  one_of('horizon.kind', kind, tuple(HORIZONS))
  turns = values.pop('turns', ())
  turns = (turns,) if isinstance(turns, int) else tuple(turns)
  every = values.pop('every', 0)
  if values:
    raise ConfigError(
        f'Unknown field horizon.{sorted(values)[0]}; known: kind, turns, every.'
    )
  try:
    if kind == 'stepwise':
      return schedules.stepwise(turns, every)
    if len(turns) != 1 or every:
      raise ValueError(
          f"horizon.kind='fixed' takes one stage and no every, got {turns=} and"
          f" {every=}; horizon.kind='stepwise' takes several."
      )
    return schedules.fixed(turns[0])
  except ValueError as error:
    raise ConfigError(str(error)) from error


def read_train(config: ConfigDict) -> Train:
  """Reads and checks a training config."""
  return reading.read_config(
      config, Train, horizon=read_horizon, algo=read_algo
  )
