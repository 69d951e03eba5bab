"""What a config may say: one dataclass a section, every field with its meaning.

A section of the ConfigDict becomes a dataclass here, and nowhere below modes/
is a ConfigDict seen. A field that no dataclass has, a value out of range or two
that contradict each other are refused before anything starts (invariant 11).
Here is what several modes share; `sampler_settings` has who samples,
`online_settings` what is mode 'train', `offline_settings` what is 'sft', 'dpo'
and 'agentevol'. `reading` makes them of a config.
"""

import dataclasses
from typing import Any

from agentrl.envs import actions, prompts
from agentrl.errors import ConfigError
from agentrl.models.lora import TARGETS, Lora
from agentrl.models.mesh_attention import IMPLEMENTATIONS
from agentrl.models.transformer import REMAT
from agentrl.models.variants import VARIANTS
from agentrl.modes import reading
from agentrl.modes.reading import above, at_least, idle, one_of, read
from agentrl.modes.sampler_settings import SERVER_DTYPES, Sampler
from agentrl.parallel import mesh as mesh_lib
from agentrl.training.optim import OPTIMIZERS, SCHEDULES


@dataclasses.dataclass(frozen=True)
class Env:
  """Which world, and where it is served."""

  name: str
  url: Any = None  # one URL or several; None: a child process serves it
  options: dict[str, Any] = dataclasses.field(default_factory=dict)
  task_file: str | None = None  # AgentGym item file instead of the train list
  timeout_s: float = 60.0  # of one request
  # How long a server at `url` that has answered may be away (a restart, say);
  # episodes wait for it within their `rollout.deadline_s`.
  retry_s: float = 60.0
  workers: int = 1  # server processes, when a child serves it
  token_file: str | None = None  # what the server at `url` wants to be told

  def __post_init__(self):
    at_least('env.workers', self.workers, 1)
    above('env.timeout_s', self.timeout_s, 0)
    at_least('env.retry_s', self.retry_s, 0)
    if not self.url:
      reason = 'a child of the run that died is started again'
      idle(self, 'env', ('retry_s',), reason)
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
  # A name of text.chat.TEMPLATES; None: the tokenizer's own, where it is
  # append-only, or 'qwen3' in the place of Qwen3's.
  template: str | None = None

  def __post_init__(self):
    one_of('agent.format', self.format, tuple(actions.FORMATS))
    one_of('agent.instructions', self.instructions, prompts.STYLES)


@dataclasses.dataclass(frozen=True)
class Model:
  """The policy network."""

  name: str  # a tiny variant, 'smollm2-135m', a directory, a .gguf, a hub name
  # Activations computed again in the backward pass: 'none' | 'dots' (all but
  # products with weights and attention) | 'full': less memory. On a CPU 'dots'
  # is the fastest of them, since less is written and read.
  remat: str = 'none'
  # In training: 'reference' (any device) | 'flash' (kernels for a GPU, whose
  # memory grows with a row and not with its square). Nothing chooses the second
  # by itself, as it has not run on a card yet: see `ops.flash`.
  attention: str = 'reference'
  # Of activations, and of a frozen base's parameters; 'bfloat16' on a GPU.
  dtype: str = 'float32'
  # A section: see `models.lora.Lora`. With a rank above 0 a low-rank adapter is
  # trained over the frozen model, and nothing else.
  lora: Any = Lora()

  def __post_init__(self):
    one_of('model.dtype', self.dtype, ('float32', 'bfloat16'))
    one_of('model.remat', self.remat, tuple(REMAT))
    one_of('model.attention', self.attention, tuple(IMPLEMENTATIONS))
    object.__setattr__(self, 'lora', _read_lora(self.lora))
    if self.lora.rank and self.from_scratch:
      raise ConfigError(
          f'model.lora.rank={self.lora.rank} adapts a pretrained model, and'
          f' {self.name!r} starts random: train it in full first, and give that'
          " run's workdir as model.name."
      )

  @property
  def from_scratch(self) -> bool:
    """Tiny variants start random, with a tokenizer trained for the task."""
    return self.name.startswith('tiny') and self.name in VARIANTS


def _read_lora(section: Any) -> Lora:
  if isinstance(section, Lora):
    return section
  lora = read(Lora, section, 'model.lora')
  at_least('model.lora.rank', lora.rank, 0)
  if not lora.rank:
    rest = ('alpha', 'targets', 'rslora')
    reason = 'model.lora.rank=0 trains all parameters'
    idle(lora, 'model.lora', rest, reason)
  above('model.lora.alpha', lora.alpha, 0)
  targets = lora.targets
  if isinstance(targets, str) or not targets:
    raise ConfigError(
        f'model.lora.targets={targets!r} names no projection; give some of'
        f' {TARGETS}.'
    )
  for target in targets:
    if target in ('embed', 'lm_head'):
      raise ConfigError(
          f'model.lora.targets has {target!r}: only the projections of the'
          f' layers can have an adapter ({", ".join(TARGETS)}). To train the'
          ' vocabulary too, set model.lora.rank=0.'
      )
    one_of('model.lora.targets', target, TARGETS)
  # In the table's order, whatever the config's: they are a set.
  chosen = tuple(name for name in TARGETS if name in targets)
  return dataclasses.replace(lora, targets=chosen)


@dataclasses.dataclass(frozen=True)
class Mesh:
  """Devices per axis, of which one may be -1: the rest; and their memory."""

  data: int = 1  # rows of a batch
  fsdp: int = -1  # rows too, and the parameters with their moments
  tensor: int = 1  # heads, the inner width of the MLP, the vocabulary
  sequence: int = 1  # the tokens of a row, for long episodes
  # What waits in the memory of the host between its uses: 'optimizer' (its
  # state), 'reference' (the policy that the KL is to).
  offload: tuple[str, ...] = ()

  def __post_init__(self):
    if isinstance(self.offload, str):
      raise ConfigError(
          f'mesh.offload is a list, got the text {self.offload!r}.'
      )
    for name in self.offload:
      one_of('mesh.offload', name, ('optimizer', 'reference'))

  @property
  def axes(self) -> dict[str, int]:
    """Devices by the name of their axis."""
    return {name: getattr(self, name) for name in mesh_lib.AXES}


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
  """An optimiser behind a clip of the global norm."""

  lr: float
  name: str = 'adamw'  # 'adamw' | 'adamw8bit' | 'adafactor' | 'muon'
  warmup_steps: int = 0
  schedule: str = 'constant'
  grad_clip: float = 1.0
  weight_decay: float = 0.0
  b1: float = 0.9  # of Adam's first moment; in 'muon', of embeddings and norms
  b2: float = 0.999  # of its second moment
  momentum: float = 0.95  # of 'muon'
  max_tokens: int = 8192  # per microbatch: memory, not mathematics

  def __post_init__(self):
    above('optim.lr', self.lr, 0)
    above('optim.grad_clip', self.grad_clip, 0)
    at_least('optim.warmup_steps', self.warmup_steps, 0)
    at_least('optim.weight_decay', self.weight_decay, 0)
    one_of('optim.schedule', self.schedule, SCHEDULES)
    at_least('optim.max_tokens', self.max_tokens, 1)
    one_of('optim.name', self.name, tuple(OPTIMIZERS))
    for name in ('b1', 'b2', 'momentum'):
      if not 0 <= getattr(self, name) < 1:
        raise ConfigError(
            f'optim.{name} must be in [0, 1), got {getattr(self, name)}.'
        )
    idle = ('b1', 'b2', 'momentum') if self.name == 'adafactor' else ()
    idle = ('momentum',) if self.name in ('adamw', 'adamw8bit') else idle
    for name in idle:
      reason = f'optim.name={self.name!r} has none; leave it at its default'
      reading.idle(self, 'optim', (name,), reason)


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


def check_push(model: Model, sampler: Sampler) -> None:
  """Refuses what model and sampler say against each other."""
  if sampler.launch:
    found = sampler.launch.value_of('--dtype')
    if found not in (None, 'auto') and SERVER_DTYPES.get(found) != model.dtype:
      raise ConfigError(
          f'sampler.launch.flags has --dtype {found}, and'
          f' model.dtype={model.dtype!r}: log-probabilities of servers and'
          ' trainer would differ. Leave the flag out, or set model.dtype.'
      )
  if not model.lora.rank:
    reason = 'model.lora.rank=0 trains all parameters'
    idle(sampler, 'sampler', ('push_lora',), reason)


def _check_untrained(model: Model, sampler: Sampler) -> None:
  reason = 'nothing is trained; a run with an adapter says so itself'
  idle(model, 'model', ('lora',), reason)
  reason = 'nothing is trained, and sampling has its own'
  idle(model, 'model', ('attention',), reason)
  check_push(model, sampler)


@dataclasses.dataclass(frozen=True)
class Evaluation:
  """The whole of a `mode='evaluate'` config."""

  env: Env
  agent: Agent
  model: Model
  sampler: Sampler
  rollout: Limits
  eval: Eval
  # Keeps compiled programs for the next start; see `compile_cache.use`.
  compile_cache: str | None = None

  def __post_init__(self):
    _check_untrained(self.model, self.sampler)
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
  name: str | None = None  # for OpenAI's clients; None: `model.name` as given
  max_context: int = 0  # 0: all positions of the model
  seed: int = 0  # of requests that bring none
  # Files of one line each; see `engine.auth.Keys`. None: no key.
  api_key_file: str | None = None
  admin_api_key_file: str | None = None
  # Of chats, as `agent.template` is of episodes; None: the tokenizer's own.
  chat_template: str | None = None
  # Compile before /health says ready; else the first requests wait for it.
  warmup: bool = True


@dataclasses.dataclass(frozen=True)
class ServePolicy:
  """The whole of a `mode='serve_policy'` config."""

  model: Model
  sampler: Sampler
  serve: Serve
  # Keeps compiled programs for the next start; see `compile_cache.use`.
  compile_cache: str | None = None

  def __post_init__(self):
    _check_untrained(self.model, self.sampler)


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
  # Keeps compiled programs for the next start; see `compile_cache.use`.
  compile_cache: str | None = None


@dataclasses.dataclass(frozen=True)
class Source:
  """Which checkpoint is exported."""

  path: str  # workdir of a run that trains, or one of its checkpoints/N
  step: int | None = None  # N; None: the newest, or the one that `path` names

  def __post_init__(self):
    if not self.path:
      raise ConfigError(
          'Name a run: --config.checkpoint.path=WORKDIR, or one of its'
          ' checkpoints: WORKDIR/checkpoints/N'
      )


@dataclasses.dataclass(frozen=True)
class Export:
  """How a checkpoint becomes a Hugging Face folder."""

  dtype: str = 'float32'  # of the files: 'float32' | 'bfloat16' | 'source'
  shard_bytes: int = 10**9  # most bytes of one file

  def __post_init__(self):
    one_of('export.dtype', self.dtype, ('float32', 'bfloat16', 'source'))
    at_least('export.shard_bytes', self.shard_bytes, 1)


@dataclasses.dataclass(frozen=True)
class Exporting:
  """The whole of a `mode='export'` config."""

  checkpoint: Source
  export: Export
  # Keeps compiled programs for the next start; see `compile_cache.use`.
  compile_cache: str | None = None
