"""What a config may say: one dataclass a section, every field with its meaning.

A section of the ConfigDict becomes a dataclass here, and nowhere below modes/
is a ConfigDict seen. A field that no dataclass has, a value out of range or two
that contradict each other are refused before anything starts (invariant 11).
Here is what several modes share; `online_settings` has that of mode 'train',
`offline_settings` that of 'sft', 'dpo' and 'agentevol'.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from ml_collections import ConfigDict

from agentrl.envs import actions, prompts
from agentrl.errors import ConfigError
from agentrl.models.variants import VARIANTS
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
  token_file: str | None = None  # what the server at `url` wants to be told

  def __post_init__(self):
    at_least('env.workers', self.workers, 1)
    above('env.timeout_s', self.timeout_s, 0)
    if self.url and self.workers > 1:
      raise ConfigError(
          f'env.workers={self.workers} has no effect with env.url; start more'
          ' servers and list their URLs instead.'
      )

    if self.token_file and not self.url:
      raise ConfigError(
          'env.token_file has no effect without env.url: a child of the run'
          ' listens on loopback only.'
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

  def __post_init__(self):
    one_of('agent.format', self.format, tuple(actions.FORMATS))
    one_of('agent.instructions', self.instructions, prompts.STYLES)


@dataclasses.dataclass(frozen=True)
class Model:
  """The policy network."""

  name: str  # a tiny variant, 'smollm2-135m', a directory, a .gguf, a hub name
  remat: bool = False  # recompute activations: less memory, more time
  dtype: str = 'float32'  # of activations; 'bfloat16' on a GPU

  def __post_init__(self):
    one_of('model.dtype', self.dtype, ('float32', 'bfloat16'))

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
    one_of('sampler.kind', self.kind, ('embedded', 'sglang'))
    at_least('sampler.max_running', self.max_running, 1)
    at_least('sampler.max_attempts', self.max_attempts, 1)
    above('sampler.timeout_s', self.timeout_s, 0)
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
      at_least(f'rollout.{name}', getattr(self, name), 1)
    above('rollout.deadline_s', self.deadline_s, 0)
    if not 0 <= self.max_failed_share <= 1:
      raise ConfigError(
          f'rollout.max_failed_share is a share, got {self.max_failed_share}.'
      )
    if self.max_completion_tokens >= self.max_context:
      raise ConfigError(
          f'rollout.max_completion_tokens={self.max_completion_tokens} leaves'
          f' no room for a prompt in rollout.max_context={self.max_context}.'
      )


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
    above('optim.lr', self.lr, 0)
    above('optim.grad_clip', self.grad_clip, 0)
    at_least('optim.warmup_steps', self.warmup_steps, 0)
    at_least('optim.weight_decay', self.weight_decay, 0)
    one_of('optim.schedule', self.schedule, SCHEDULES)
    at_least('optim.max_tokens', self.max_tokens, 1)
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
    at_least('warmstart.episodes', self.episodes, 0)
    at_least('warmstart.epochs', self.epochs, 1)
    at_least('warmstart.minibatch_size', self.minibatch_size, 1)
    at_least('warmstart.horizon', self.horizon, 1)
    at_least('warmstart.warmup_steps', self.warmup_steps, 0)
    above('warmstart.lr', self.lr, 0)
    one_of('warmstart.schedule', self.schedule, SCHEDULES)


@dataclasses.dataclass(frozen=True)
class Eval:
  """Success on a fixed list of held-out tasks, with an interval.

  A policy without a warm start has no `untrained` evaluation apart from its
  `before`.
  """

  num_tasks: int  # 0: no evaluation
  horizon: int  # turns; does not grow, so that evaluations compare
  split: str = 'test'
  task_file: str | None = None  # AgentGym item file instead of the split's list
  seed: int = 0  # of sampling; the same at every evaluation
  temperature: float = 1.0
  every: int = 0  # rl steps between evaluations; 0: only before and after
  samples: int = 1  # episodes per task

  def __post_init__(self):
    at_least('eval.num_tasks', self.num_tasks, 0)
    at_least('eval.horizon', self.horizon, 1)
    at_least('eval.samples', self.samples, 1)
    at_least('eval.every', self.every, 0)
    at_least('eval.temperature', self.temperature, 0)
    one_of('eval.split', self.split, ('train', 'dev', 'test'))


@dataclasses.dataclass(frozen=True)
class Checkpoint:
  """Saving."""

  every: int = 10  # rl steps
  keep: int = 2

  def __post_init__(self):
    at_least('checkpoint.every', self.every, 1)
    at_least('checkpoint.keep', self.keep, 1)


@dataclasses.dataclass(frozen=True)
class Evaluation:
  """The whole of a `mode='evaluate'` config."""

  env: Env
  agent: Agent
  model: Model
  sampler: Sampler
  rollout: Limits
  eval: Eval

  def __post_init__(self):
    if self.env.task_file and (
        self.eval.split != 'train' or self.eval.task_file
    ):
      raise ConfigError(
          'env.task_file names tasks to train on and has no effect here; name'
          ' those to evaluate on in eval.task_file.'
      )


@dataclasses.dataclass(frozen=True)
class Serve:
  """The standalone engine."""

  port: int
  host: str = '127.0.0.1'
  max_context: int = 0  # 0: all positions of the model
  seed: int = 0  # of requests that bring none


@dataclasses.dataclass(frozen=True)
class ServePolicy:
  """The whole of a `mode='serve_policy'` config."""

  model: Model
  sampler: Sampler
  serve: Serve


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
    at_least('inspect.num_groups', self.num_groups, 1)


@dataclasses.dataclass(frozen=True)
class Inspection:
  """The whole of a `mode='inspect'` config."""

  inspect: Inspect


def read_config(config: ConfigDict, cls: type, **readers: Callable[[Any], Any]):
  """Makes `cls`, the whole of a mode's config, whose sections are its fields.

  Args:
    config: has `mode` and these sections, and nothing else.
    cls: a dataclass; a field that is one is read by `read`.
    **readers: of sections that are read otherwise.

  Raises:
    ConfigError: a section or a field is unknown or missing, or refused.
  """
  sections = {f.name: f.type for f in dataclasses.fields(cls)}
  check_sections(config, ('mode', *sections))
  values = {}
  for name, kind in sections.items():
    if name in readers:
      values[name] = readers[name](config[name])
    elif dataclasses.is_dataclass(kind):
      values[name] = read(kind, config[name], name)
    else:
      values[name] = config[name]
  return read(cls, values, 'config')


def read(cls: type, section: Any, name: str):
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


def at_least(name: str, value: float, least: float) -> None:
  """Refuses a smaller value."""
  if value < least:
    raise ConfigError(f'{name} must be at least {least}, got {value}.')


def above(name: str, value: float, bound: float) -> None:
  """Refuses a smaller or equal value."""
  if not value > bound:
    raise ConfigError(f'{name} must be above {bound}, got {value}.')


def one_of(name: str, value: Any, known: tuple[str, ...]) -> None:
  """Refuses any other value."""
  if value not in known:
    raise ConfigError(f'Unknown {name}={value!r}; known: {", ".join(known)}.')


def idle(section: Any, prefix: str, names: Sequence[str], reason: str) -> None:
  """Refuses fields that were set although they cannot act.

  Args:
    section: a dataclass, whose defaults count as not set.
    prefix: its name in a config.
    names: of the fields.
    reason: why they cannot act.
  """
  defaults = {f.name: f.default for f in dataclasses.fields(section)}
  for name in names:
    value = getattr(section, name)
    if value != defaults[name]:
      raise ConfigError(f'{prefix}.{name}={value} has no effect: {reason}.')
