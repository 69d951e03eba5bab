"""What the configs of the modes sft, dpo and agentevol may say.

As in `settings`: one dataclass a section, and what cannot act is refused.
"""

import dataclasses
import math
from typing import Any

from ml_collections import ConfigDict

from agentrl.algos import ONLINE, dpo
from agentrl.errors import ConfigError
from agentrl.modes import reading, settings
from agentrl.modes.reading import above, at_least, idle, one_of
from agentrl.ops import preference_loss


@dataclasses.dataclass(frozen=True)
class Data:
  """Demonstrations: files, the environment's expert, or both."""

  files: tuple[str, ...] = ()  # conversations or episodes, JSON or JSON lines
  expert_episodes: int = 0  # training tasks that the expert plays
  expert_horizon: int = 30  # turns it may take
  # Of episode files: the least return to imitate; None: those with success.
  min_return: float | None = None
  # Whether the instructions of config.agent take the place of a conversation's
  # own: so the policy is asked at evaluation what it was asked in training.
  own_opening: bool = False

  def __post_init__(self):
    at_least('data.expert_episodes', self.expert_episodes, 0)
    at_least('data.expert_horizon', self.expert_horizon, 1)
    _no_text('data.files', self.files)
    if not self.files and not self.expert_episodes:
      raise ConfigError(
          'There is nothing to learn from: set data.files or, for the'
          " environment's expert, data.expert_episodes."
      )
    if not self.files:
      idle(self, 'data', ('min_return', 'own_opening'), 'data.files is empty')
    if not self.expert_episodes:
      idle(self, 'data', ('expert_horizon',), 'data.expert_episodes is 0')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Explore:
  """Episodes that the policy plays to learn from them."""

  tasks: int  # training tasks that are played; each round, where there are more
  samples: int  # episodes a task
  horizon: int  # turns
  temperature: float = 1.0

  def __post_init__(self):
    for name in ('samples', 'horizon'):
      at_least(f'explore.{name}', getattr(self, name), 1)
    at_least('explore.tasks', self.tasks, 0)
    above('explore.temperature', self.temperature, 0)


@dataclasses.dataclass(frozen=True)
class Pairs:
  """Which episodes of a task make a preference pair."""

  files: tuple[str, ...] = ()  # pairs or episodes; none: explore plays them
  gap: float = 0.01  # least difference of the returns
  threshold: float = 0.7  # least return of the better one
  per_task: int = 1  # most pairs of one task
  # Whether the expert's episodes, those of the warm start where there is one,
  # are paired with the policy's own on the same tasks (ETO, arXiv:2403.02502).
  with_expert: bool = False
  own_opening: bool = False  # as in config.data

  def __post_init__(self):
    _no_text('pairs.files', self.files)
    above('pairs.gap', self.gap, 0)
    at_least('pairs.per_task', self.per_task, 1)
    if not self.files:
      idle(self, 'pairs', ('own_opening',), 'pairs.files is empty')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Supervised:
  """Passes over data: what the offline algorithms share."""

  epochs: int = 1
  minibatch_size: int = 16  # demonstrations an update, or pairs
  warmup: float = 0.1  # share of the updates; instead of optim.warmup_steps

  def __post_init__(self):
    at_least('algo.epochs', self.epochs, 1)
    at_least('algo.minibatch_size', self.minibatch_size, 1)
    if not 0 <= self.warmup <= 1:
      raise ConfigError(f'algo.warmup is a share, got {self.warmup}.')

  def with_warmup(self, optim: settings.Optim, total: int) -> settings.Optim:
    """The optimiser's settings for a phase of `total` updates."""
    return dataclasses.replace(
        optim, warmup_steps=math.ceil(self.warmup * total)
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sft(Supervised):
  """Supervised fine-tuning."""

  heldout: float = 0.05  # share of the demonstrations, for the validation loss
  validate_every: int = 0  # updates; 0: once an epoch

  def __post_init__(self):
    super().__post_init__()
    if not 0 <= self.heldout < 1:
      raise ConfigError(f'algo.heldout is a share below 1, got {self.heldout}.')
    at_least('algo.validate_every', self.validate_every, 0)
    if not self.heldout:
      idle(self, 'algo', ('validate_every',), 'algo.heldout is 0')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dpo(Supervised, dpo.Knobs):
  """Learning from preferences."""

  def __post_init__(self):
    super().__post_init__()
    one_of('algo.loss', self.loss, preference_loss.LOSSES)
    above('algo.beta', self.beta, 0)
    at_least('algo.nll_coef', self.nll_coef, 0)
    if not 0 <= self.label_smoothing < 0.5:
      raise ConfigError(
          'algo.label_smoothing is the share of pairs that are the wrong way'
          f' round: at least 0, below 0.5, got {self.label_smoothing}.'
      )
    if self.loss != 'sigmoid':
      idle(
          self,
          'algo',
          ('label_smoothing',),
          f"algo.loss={self.loss!r} knows no labels; it acts in 'sigmoid'",
      )


@dataclasses.dataclass(frozen=True, kw_only=True)
class AgentEvol(Supervised):
  """Which of its own episodes the policy learns from."""

  threshold: float = 0.0  # an episode's return has to lie above it
  weighting: str = 'equal'  # 'equal' | 'return'

  def __post_init__(self):
    super().__post_init__()
    one_of('algo.weighting', self.weighting, ('equal', 'return'))
    if self.weighting == 'return':
      # A negative weight would unlearn, without a bound.
      at_least("algo.threshold with weighting='return'", self.threshold, 0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Base:
  """What the three modes share."""

  seed: int
  env: settings.Env
  agent: settings.Agent
  model: settings.Model
  mesh: settings.Mesh
  sampler: settings.Sampler
  rollout: settings.Limits
  optim: settings.Optim
  eval: settings.Eval
  checkpoint: settings.Checkpoint
  # Keeps compiled programs for the next start; see `compile_cache.use`.
  compile_cache: str | None = None

  def __post_init__(self):
    settings.check_push(self.model, self.sampler)
    if self.eval.every:
      raise ConfigError(
          f'eval.every={self.eval.every} has no effect in this mode: it'
          ' evaluates before and after, and agentevol after each round.'
      )
    if 'reference' in self.mesh.offload:
      raise ConfigError(
          "mesh.offload='reference' has no effect in this mode: it keeps no"
          ' reference policy.'
      )
    if self.optim.warmup_steps:
      raise ConfigError(
          f'optim.warmup_steps={self.optim.warmup_steps} has no effect in this'
          ' mode: the data decides how many updates there are. Set'
          ' algo.warmup, a share of them.'
      )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SftRun(Base):
  """The whole of a `mode='sft'` config."""

  data: Data
  algo: Sft


@dataclasses.dataclass(frozen=True, kw_only=True)
class DpoRun(Base):
  """The whole of a `mode='dpo'` config."""

  warmstart: settings.Warmstart
  explore: Explore
  pairs: Pairs
  algo: Dpo

  def __post_init__(self):
    super().__post_init__()
    if bool(self.pairs.files) == bool(self.explore.tasks):
      raise ConfigError(
          'Pairs come from pairs.files or from episodes of explore.tasks'
          f' tasks, one of the two; got files={self.pairs.files!r} and'
          f' tasks={self.explore.tasks}.'
      )
    if self.explore.tasks:
      if self.explore.samples < 2 and not self.pairs.with_expert:
        raise ConfigError(
            'A pair needs two episodes of a task: explore.samples=1 makes none.'
        )
    elif self.pairs.with_expert:
      raise ConfigError(
          'pairs.with_expert=True has no effect: explore.tasks is 0.'
      )
    if self.model.from_scratch and not self.warmstart.episodes:
      raise ConfigError(
          'A tiny policy needs warmstart.episodes: its tokenizer is trained on'
          " the expert's episodes."
      )


@dataclasses.dataclass(frozen=True, kw_only=True)
class AgentEvolRun(Base):
  """The whole of a `mode='agentevol'` config."""

  num_steps: int  # rounds of exploration and training, after the first training
  data: Data
  explore: Explore
  algo: AgentEvol

  def __post_init__(self):
    super().__post_init__()
    at_least('num_steps', self.num_steps, 1)
    at_least('explore.tasks', self.explore.tasks, 1)
    idle(self.checkpoint, 'checkpoint', ('every',), 'each round is saved')


def read_sft(config: ConfigDict) -> SftRun:
  """Reads and checks a config of mode 'sft'."""
  return _read(config, SftRun)


def read_dpo(config: ConfigDict) -> DpoRun:
  """Reads and checks a config of mode 'dpo'."""
  return _read(config, DpoRun)


def read_agentevol(config: ConfigDict) -> AgentEvolRun:
  """Reads and checks a config of mode 'agentevol'."""
  return _read(config, AgentEvolRun)


def _read(config: ConfigDict, cls: type) -> Any:
  """Reads the sections that are fields of `cls`.

  Raises:
    ConfigError: a field is unknown, missing, refused or acts elsewhere only.
  """
  algo = next(f.type for f in dataclasses.fields(cls) if f.name == 'algo')

  def read_algo(section):
    _refuse_others(section, config.mode, algo)
    return reading.read(algo, section, 'algo')

  return reading.read_config(config, cls, algo=read_algo)


def _refuse_others(section: ConfigDict, mode: str, cls: type) -> None:
  """Says of a field of another algorithm where it acts."""
  names = lambda cls: {field.name for field in dataclasses.fields(cls)}
  others = {name: names(module.Knobs) for name, module in ONLINE.items()}
  others |= {'sft': names(Sft), 'dpo': names(Dpo)}
  others |= {'agentevol': names(AgentEvol)}
  for key in sorted(set(section.keys()) - names(cls)):
    where = [name for name, known in others.items() if key in known]
    if where:
      raise ConfigError(
          f'algo.{key} has no effect with mode={mode!r}; it acts in'
          f' {", ".join(where)}.'
      )


def _no_text(name: str, files: Any) -> None:
  if isinstance(files, str):
    raise ConfigError(f'{name} is a list of files, got the text {files!r}.')
