"""What a config may say: one dataclass a section, every field with its meaning.

A section of the ConfigDict becomes a dataclass here, and nowhere below modes/
is a ConfigDict seen. A field that no dataclass has, a value out of range or two
that contradict each other are refused before anything starts (invariant 11).
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from ml_collections import ConfigDict

from agentrl import schedules
from agentrl.algos import ONLINE, policy
from agentrl.errors import ConfigError
from agentrl.models import value_head
from agentrl.models.variants import VARIANTS
from agentrl.ops import aggregate, kl
from agentrl.schedules import HORIZONS, Horizon
from agentrl.training.optim import SCHEDULES


@dataclasses.dataclass(frozen=True)
class Env:
  """Which world, and where it is served."""

  name: str
  url: Any = None  # one URL or several; None: a child process serves it
  options: dict[str, Any] = dataclasses.field(default_factory=dict)
  task_file: str | None = None  # AgentGym item file instead of the train list
  timeout_s: float = 60.0  # of one request
  workers: int = 1  # server processes, when a child serves it

  def __post_init__(self):
    _at_least('env.workers', self.workers, 1)
    _above('env.timeout_s', self.timeout_s, 0)
    if self.url and self.workers > 1:
      raise ConfigError(
          f'env.workers={self.workers} has no effect with env.url; start more'
          ' servers and list their URLs instead.'
      )

  @property
  def urls(self) -> tuple[str, ...]:
    if self.url is None:
      return ()
    return (self.url,) if isinstance(self.url, str) else tuple(self.url)


@dataclasses.dataclass(frozen=True)
class Agent:
  """How the policy talks."""

  format: str = 'react'  # how an action is written, see envs.actions
  instructions: str = 'full'  # a style of envs.prompts
  template: str | None = None  # chat template; None: the tokenizer's own


@dataclasses.dataclass(frozen=True)
class Model:
  """The policy network."""

  name: str  # a tiny variant, 'smollm2-135m', a directory, a .gguf, a hub name
  remat: bool = False  # recompute activations: less memory, more time
  dtype: str = 'float32'  # of activations; 'bfloat16' on a GPU

  def __post_init__(self):
    _one_of('model.dtype', self.dtype, ('float32', 'bfloat16'))

  @property
  def from_scratch(self) -> bool:
    """Tiny variants start random, with a tokenizer trained for the task."""
    return self.name.startswith('tiny') and self.name in VARIANTS


@dataclasses.dataclass(frozen=True)
class Mesh:
  """Devices per axis; one may be -1: the rest."""

  data: int = 1
  fsdp: int = -1
  tensor: int = 1
  sequence: int = 1

  def __post_init__(self):
    if self.sequence != 1:
      raise ConfigError(
          f'mesh.sequence={self.sequence} is not supported yet; use 1.'
      )


@dataclasses.dataclass(frozen=True)
class Sampler:
  """Who samples: the embedded engine or SGLang servers."""

  kind: str = 'embedded'  # 'embedded' | 'sglang'
  urls: tuple[str, ...] = ()  # of SGLang servers
  push_dir: str | None = None  # folder that trainer and servers share
  api_key: str | None = None
  max_running: int = 64  # embedded: sequences that decode together
  slots: int = 0  # embedded: cached sequences; 0: twice max_running
  timeout_s: float = 300.0  # of one request
  max_attempts: int = 4  # of one request

  def __post_init__(self):
    _one_of('sampler.kind', self.kind, ('embedded', 'sglang'))
    _at_least('sampler.max_running', self.max_running, 1)
    _at_least('sampler.max_attempts', self.max_attempts, 1)
    _above('sampler.timeout_s', self.timeout_s, 0)
    if self.slots and self.slots < self.max_running:
      raise ConfigError(
          f'sampler.slots={self.slots} are fewer than sampler.max_running='
          f'{self.max_running} sequences.'
      )
    if self.kind == 'sglang' and not (self.urls and self.push_dir):
      raise ConfigError(
          "sampler.kind='sglang' needs sampler.urls, the servers, and"
          ' sampler.push_dir, a folder that they can read.'
      )
    if self.kind == 'embedded' and (self.urls or self.push_dir or self.api_key):
      raise ConfigError(
          'sampler.urls, push_dir and api_key have no effect with'
          " sampler.kind='embedded'; set sampler.kind='sglang'."
      )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
  """How far an episode may go, and how many run together."""

  max_completion_tokens: int  # of one turn
  max_context: int  # of a whole episode
  concurrency: int = 64  # episodes at a time
  deadline_s: float = 600.0  # of one episode
  attempts: int = 3  # of an episode that the infrastructure failed
  max_failed_share: float = 0.5  # more than this stops the run
  save_tokens: bool = True  # write token arrays into the episode files

  def __post_init__(self):
    for name in ('concurrency', 'attempts', 'max_completion_tokens'):
      _at_least(f'rollout.{name}', getattr(self, name), 1)
    _above('rollout.deadline_s', self.deadline_s, 0)
    if not 0 <= self.max_failed_share <= 1:
      raise ConfigError(
          f'rollout.max_failed_share is a share, got {self.max_failed_share}.'
      )
    if self.max_completion_tokens >= self.max_context:
      raise ConfigError(
          f'rollout.max_completion_tokens={self.max_completion_tokens} leaves'
          f' no room for a prompt in rollout.max_context={self.max_context}.'
      )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rollout(Limits):
  """Collecting episodes to train on."""

  tasks_per_step: int
  group_size: int
  temperature: float = 1.0
  top_p: float = 1.0
  top_k: int = -1

  def __post_init__(self):
    super().__post_init__()
    for name in ('tasks_per_step', 'group_size'):
      _at_least(f'rollout.{name}', getattr(self, name), 1)
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
    _one_of('algo.critic.kind', self.kind, value_head.KINDS)
    _above('algo.critic.lr', self.lr, 0)
    _above('algo.critic.grad_clip', self.grad_clip, 0)
    _at_least('algo.critic.warmup', self.warmup, 0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Algo:
  """The algorithm: what all of them share, and its own `knobs`.

  In a config the knobs (fields of the algorithm's `Knobs`) stand beside the
  fields below. See `training.rl.UpdatePlan` for what those mean.
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
    _at_least('algo.epochs', self.epochs, 1)
    _at_least('algo.minibatches', self.minibatches, 1)
    _one_of('algo.ratio', self.ratio, ('old', 'sampler'))
    _one_of('algo.kl_in', self.kl_in, ('loss', 'reward'))
    _one_of('algo.ties', self.ties, ('keep', 'mask', 'refill'))
    _one_of('algo.truncated', self.truncated, ('keep', 'mask'))
    for name in ('kl_coef', 'overlong_buffer'):
      _at_least(f'algo.{name}', getattr(self, name), 0)
    for name in ('refill_rounds', 'kl_horizon'):
      _at_least(f'algo.{name}', getattr(self, name), 1)
    if self.kl_target is not None:
      _above('algo.kl_target', self.kl_target, 0)
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
    _one_of('algo.kl_estimator', knobs.kl_estimator, kl.ESTIMATORS)
    _one_of('algo.surrogate', knobs.surrogate, ('clip', 'cispo'))
    _one_of('algo.ratio_level', knobs.ratio_level, ('token', 'sequence'))
    _one_of('algo.aggregation', knobs.aggregation, aggregate.MODES)
    _above('algo.clip_low', knobs.clip_low, 0)
    _above('algo.clip_high', knobs.clip_high, 0)
    _at_least('algo.entropy_coef', knobs.entropy_coef, 0)
    if knobs.clip_low > 1 or (
        knobs.clip_low == 1 and knobs.surrogate == 'clip'
    ):
      raise ConfigError(
          f'algo.clip_low={knobs.clip_low} never clips: a ratio is above 0.'
      )
    if knobs.dual_clip is not None:
      _above('algo.dual_clip', knobs.dual_clip, 1)
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
      _above('algo.sequence_high', knobs.sequence_high, knobs.sequence_low)
    if knobs.importance_cap is not None:
      _above('algo.importance_cap', knobs.importance_cap, 0)
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
      _at_least('algo.step_weight', knobs.step_weight, 0)
      if not knobs.step_weight:
        self._idle('gamma', reason='algo.step_weight=0 leaves turns out')
    if hasattr(knobs, 'value_clip'):
      _above('algo.value_coef', knobs.value_coef, 0)
      if knobs.value_clip is not None:
        _above('algo.value_clip', knobs.value_clip, 0)
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
      value = getattr(owner, name)
      default = {f.name: f.default for f in dataclasses.fields(owner)}[name]
      if value != default:
        raise ConfigError(f'algo.{name}={value} has no effect: {reason}.')


@dataclasses.dataclass(frozen=True)
class Optim:
  """AdamW behind a clip of the global norm."""

  lr: float
  warmup_steps: int = 0
  schedule: str = 'constant'
  grad_clip: float = 1.0
  weight_decay: float = 0.0
  b1: float = 0.9
  b2: float = 0.999
  max_tokens: int = 8192  # per microbatch: memory, not mathematics

  def __post_init__(self):
    _above('optim.lr', self.lr, 0)
    _above('optim.grad_clip', self.grad_clip, 0)
    _at_least('optim.warmup_steps', self.warmup_steps, 0)
    _at_least('optim.weight_decay', self.weight_decay, 0)
    _one_of('optim.schedule', self.schedule, SCHEDULES)
    _at_least('optim.max_tokens', self.max_tokens, 1)
    for name in ('b1', 'b2'):
      if not 0 <= getattr(self, name) < 1:
        raise ConfigError(
            f'optim.{name} must be in [0, 1), got {getattr(self, name)}.'
        )


@dataclasses.dataclass(frozen=True)
class Warmstart:
  """Supervised learning on the expert's episodes, before RL."""

  episodes: int  # 0: no warm start
  epochs: int = 1
  minibatch_size: int = 32
  lr: float = 1e-3
  warmup_steps: int = 0
  schedule: str = 'constant'
  horizon: int = 30  # turns an expert may take

  def __post_init__(self):
    _at_least('warmstart.episodes', self.episodes, 0)
    _at_least('warmstart.epochs', self.epochs, 1)
    _at_least('warmstart.minibatch_size', self.minibatch_size, 1)
    _at_least('warmstart.horizon', self.horizon, 1)
    _at_least('warmstart.warmup_steps', self.warmup_steps, 0)
    _above('warmstart.lr', self.lr, 0)
    _one_of('warmstart.schedule', self.schedule, SCHEDULES)


@dataclasses.dataclass(frozen=True)
class Eval:
  """Success on a fixed list of held-out tasks, with an interval.

  A policy without a warm start has no `untrained` evaluation apart from its
  `before`.
  """

  num_tasks: int  # 0: no evaluation
  horizon: int  # turns; does not grow, so that evaluations compare
  split: str = 'test'
  seed: int = 0  # of sampling; the same at every evaluation
  temperature: float = 1.0
  every: int = 0  # rl steps between evaluations; 0: only before and after
  samples: int = 1  # episodes per task

  def __post_init__(self):
    _at_least('eval.num_tasks', self.num_tasks, 0)
    _at_least('eval.horizon', self.horizon, 1)
    _at_least('eval.samples', self.samples, 1)
    _at_least('eval.every', self.every, 0)
    _at_least('eval.temperature', self.temperature, 0)
    _one_of('eval.split', self.split, ('train', 'dev', 'test'))


@dataclasses.dataclass(frozen=True)
class Checkpoint:
  """Saving."""

  every: int = 10  # rl steps
  keep: int = 2

  def __post_init__(self):
    _at_least('checkpoint.every', self.every, 1)
    _at_least('checkpoint.keep', self.keep, 1)


@dataclasses.dataclass(frozen=True)
class ServePolicy:
  """The standalone engine."""

  port: int
  host: str = '127.0.0.1'
  max_context: int = 0  # 0: all positions of the model
  seed: int = 0  # of requests that bring none


@dataclasses.dataclass(frozen=True)
class Inspect:
  """The token inspector."""

  episodes: str  # an episode file
  tokenizer: str | None = None  # a model's name or directory; None: the run's
  num_groups: int = 2
  html: str | None = None  # the page; None: beside the episodes

  def __post_init__(self):
    if not self.episodes:
      raise ConfigError(
          'Name an episode file: --config=configs/inspect.py:episodes=FILE'
      )
    _at_least('inspect.num_groups', self.num_groups, 1)


@dataclasses.dataclass(frozen=True)
class Train:
  """The whole of a `mode='train'` config."""

  seed: int
  num_steps: int
  env: Env
  agent: Agent
  model: Model
  mesh: Mesh
  sampler: Sampler
  rollout: Rollout
  horizon: Horizon
  algo: Algo
  optim: Optim
  warmstart: Warmstart
  eval: Eval
  checkpoint: Checkpoint


def read(cls, section: Any, name: str):
  """Makes the dataclass `cls` of a config section.

  Raises:
    ConfigError: a field is unknown or missing, or its value is refused.
  """
  values = (
      section.to_dict() if isinstance(section, ConfigDict) else dict(section)
  )
  fields = {f.name: f for f in dataclasses.fields(cls)}
  unknown = sorted(values.keys() - fields.keys())
  if unknown:
    raise ConfigError(
        f'Unknown field {name}.{unknown[0]}; known: {", ".join(fields)}.'
    )
  required = {
      key
      for key, field in fields.items()
      if field.default is dataclasses.MISSING
      and field.default_factory is dataclasses.MISSING
  }
  missing = sorted(required - values.keys())
  if missing:
    raise ConfigError(f'The config lacks {name}.{missing[0]}.')
  try:
    return cls(**values)
  except TypeError as error:  # compared with a number and is none
    raise ConfigError(
        f'A value of {name} has the wrong type: {error}'
    ) from error


def read_algo(section: Any) -> Algo:
  """The algorithm that `config.algo` describes.

  Raises:
    ConfigError: a field is unknown, refused, or acts in other algorithms only.
  """
  values = dict(section)
  name = values.get('name')
  if name is None:
    raise ConfigError('The config lacks algo.name.')
  _one_of('algo.name', name, tuple(ONLINE))
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
    critic = read(Critic, critic or {}, 'algo.critic')
  elif critic is not None:
    raise ConfigError(
        f'algo.critic has no effect with algo.name={name!r}: it has no critic.'
    )
  knobs = {key: values.pop(key) for key in own & values.keys()}
  knobs = read(ONLINE[name].Knobs, knobs, 'algo')
  if 'knobs' in values:
    raise ConfigError(
        'Write the knobs of an algorithm into config.algo itself.'
    )
  return read(Algo, values | {'critic': critic, 'knobs': knobs}, 'algo')


def read_horizon(section: Any) -> Horizon:
  """The schedule that `config.horizon` describes."""
  values = dict(section)
  kind = values.pop('kind', None)
  _one_of('horizon.kind', kind, tuple(HORIZONS))
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


def check_sections(config: ConfigDict, known: Sequence[str]) -> None:
  """Refuses a config that lacks one of these top-level fields or has others."""
  unknown = sorted(set(config.keys()) - set(known))
  if unknown:
    raise ConfigError(
        f'Unknown section config.{unknown[0]}; known: {", ".join(known)}.'
    )
  missing = sorted(set(known) - set(config.keys()))
  if missing:
    raise ConfigError(f'The config lacks the section {missing[0]!r}.')


def read_train(config: ConfigDict) -> Train:
  """Reads and checks a training config."""
  sections = {
      f.name: f.type
      for f in dataclasses.fields(Train)
      if dataclasses.is_dataclass(f.type)
  }
  del sections['algo']
  check_sections(
      config, ('mode', 'seed', 'num_steps', 'horizon', 'algo', *sections)
  )
  settings = Train(
      seed=config.seed,
      num_steps=config.num_steps,
      horizon=read_horizon(config.horizon),
      algo=read_algo(config.algo),
      **{name: read(cls, config[name], name) for name, cls in sections.items()},
  )
  _at_least('num_steps', settings.num_steps, 1)
  rollout, algo = settings.rollout, settings.algo
  compares = algo.module.GROUPS or getattr(algo.knobs, 'group_baseline', False)
  if compares and rollout.group_size < 2:
    raise ConfigError(
        f'{algo.name} compares the episodes of a group: rollout.group_size='
        f'{rollout.group_size} gives every episode the advantage 0. Use at'
        ' least 2.'
    )
  if algo.ties != 'keep' and rollout.group_size < 2:
    raise ConfigError(
        f'algo.ties={algo.ties!r} leaves out groups of equal returns: with'
        f' rollout.group_size={rollout.group_size} that is every group. Use at'
        ' least 2.'
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
  if settings.eval.every and not settings.eval.num_tasks:
    raise ConfigError(
        f'eval.every={settings.eval.every} has no effect with eval.num_tasks=0.'
    )
  return settings


def _at_least(name: str, value: float, least: float) -> None:
  if value < least:
    raise ConfigError(f'{name} must be at least {least}, got {value}.')


def _above(name: str, value: float, bound: float) -> None:
  if not value > bound:
    raise ConfigError(f'{name} must be above {bound}, got {value}.')


def _one_of(name: str, value: Any, known: tuple[str, ...]) -> None:
  if value not in known:
    raise ConfigError(f'Unknown {name}={value!r}; known: {", ".join(known)}.')
