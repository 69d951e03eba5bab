"""Sections that several modes have, each field said once.

A section checks itself where more than one of its fields is concerned; what is
about two sections, `modes` checks.
"""

import dataclasses
from typing import Any

from agentrl import envs
from agentrl.envs import ENVS, actions, prompts
from agentrl.envs.spec import SPLITS
from agentrl.errors import ConfigError
from agentrl.fields import field, section, unless_set, when, when_set
from agentrl.models.options import (
    ATTENTION,
    DTYPES,
    LORA_TARGETS,
    REMAT,
    TINY,
    Lora,
)
from agentrl.schedules import HORIZONS
from agentrl.training.options import OPTIMIZERS, SCHEDULES

_URL = 'http://127.0.0.1:1'
_SERVED = when_set(
    'env.url',
    _URL,
    'a child of the run is started again, and listens on loopback only; it acts'
    ' with env.url',
)
_CHILD = unless_set(
    'env.url',
    None,
    'env.url names servers that run; start more of them and list their URLs',
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class World:
  """One environment."""

  name: str = field('textcraft', f'one of {", ".join(ENVS)}, or module:NAME')
  # None in a config: the environment's own default, see `envs.ENVS`.
  options: dict[str, Any] = field({}, "the environment's options")

  def check(self) -> None:
    # One of your own is imported by the server, after all else was checked.
    if ':' not in self.name:
      envs.get(self.name)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Env(World):
  """Which environment, and where it is served."""

  url: str | tuple[str, ...] | None = field(
      None,
      'URL of the server, or several; None: the run starts one',
      example=_URL,
  )
  timeout_s: float = field(60.0, 'seconds until a request has failed', gt=0)
  # A server that was away (a restart, say); episodes wait for it within their
  # `rollout.deadline_s`. A child that died is started again.
  retry_s: float = field(
      60.0,
      'seconds that a server which has answered may be away',
      ge=0,
      acts_if=_SERVED,
  )
  workers: int = field(
      1, 'processes of the server that the run starts', ge=1, acts_if=_CHILD
  )
  token_file: str | None = field(
      None, "file with the server's bearer token", acts_if=_SERVED
  )

  @property
  def urls(self) -> tuple[str, ...]:
    if not self.url:
      return ()
    return (self.url,) if isinstance(self.url, str) else self.url


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainEnv(Env):
  """An environment that is trained in."""

  task_file: str | None = field(
      None, 'AgentGym item file in place of the train list'
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Agent:
  """The policy's way of talking; a run brings its own."""

  format: str = field('react', 'action format', one_of=tuple(actions.FORMATS))
  instructions: str = field(
      'full', 'length of the instructions', one_of=prompts.STYLES
  )
  # None: the tokenizer's own where that is append-only, or ours for its family.
  template: str | None = field(
      None, 'chat template, a name of text.chat.TEMPLATES', example='chatml'
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Model:
  """The policy network, as it samples."""

  name: str = field(
      'smollm2-135m',
      'variant, directory, .gguf, hub name, run or its checkpoints/N',
  )
  # Of activations, and of a frozen base's parameters; 'bfloat16' on a GPU.
  dtype: str = field('float32', 'type of activations', one_of=DTYPES)

  @property
  def from_scratch(self) -> bool:
    """Tiny variants start random, with a tokenizer trained for the task."""
    return self.name in TINY


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainModel(Model):
  """The policy network, as it learns."""

  # 'dots': all but products with weights and attention. Less memory; on a CPU
  # 'dots' is the fastest, since less is written and read.
  remat: str = field(
      'none', 'activations recomputed in the backward pass', one_of=REMAT
  )
  # Nothing chooses 'flash' by itself, as it has not run on a card yet.
  attention: str = field(
      'reference',
      'attention of rows: on any device, or kernels for a GPU whose memory does'
      " not grow with a row's square",
      one_of=ATTENTION,
  )
  lora: Lora = section(Lora)

  def check(self) -> None:
    if not self.lora.targets:
      raise ConfigError(
          'model.lora.targets=() names no projection; give some of'
          f' {LORA_TARGETS}.'
      )
    if self.lora.rank and self.from_scratch:
      raise ConfigError(
          f'model.lora.rank={self.lora.rank} adapts a pretrained model, and'
          f' {self.name!r} starts random: train it in full first, and give that'
          " run's workdir as model.name."
      )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mesh:
  """Devices per axis, of which one may be -1: the rest; and their memory."""

  data: int = field(1, 'devices for rows of a batch; -1: the rest')
  fsdp: int = field(
      -1, 'devices for rows, parameters and moments; -1: the rest', example=2
  )
  tensor: int = field(
      1, 'devices for heads, MLP width, vocabulary; -1: the rest'
  )
  sequence: int = field(1, 'devices for the tokens of a row; -1: the rest')
  offload: tuple[str, ...] = field(
      (), 'arrays kept in host memory between uses', one_of=('optimizer',)
  )

  @property
  def axes(self) -> dict[str, int]:
    """Devices by the name of their axis."""
    names = ('data', 'fsdp', 'tensor', 'sequence')
    return {name: getattr(self, name) for name in names}


@dataclasses.dataclass(frozen=True, kw_only=True)
class RlMesh(Mesh):
  """A mesh that may hold the policy that the KL is to."""

  offload: tuple[str, ...] = field(
      (),
      'arrays kept in host memory between uses',
      one_of=('optimizer', 'reference'),
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
  """Limits of an episode, and of episodes at a time."""

  max_completion_tokens: int = field(512, 'tokens of a turn, at most', ge=1)
  max_context: int = field(8192, 'tokens of an episode, at most', ge=2)
  concurrency: int = field(64, 'episodes at a time', ge=1)
  deadline_s: float = field(600.0, 'seconds of an episode, at most', gt=0)
  attempts: int = field(
      3, 'tries of an episode that the infrastructure failed', ge=1
  )
  max_failed_share: float = field(
      0.5, 'share of failed episodes beyond which the run stops', ge=0, le=1
  )
  save_tokens: bool = field(True, 'write token arrays into the episode files')

  def check(self) -> None:
    if self.max_completion_tokens >= self.max_context:
      raise ConfigError(
          f'rollout.max_completion_tokens={self.max_completion_tokens} leaves'
          f' no room for a prompt in rollout.max_context={self.max_context}.'
      )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rollout(Limits):
  """Collecting episodes to train on."""

  tasks_per_step: int = field(32, 'tasks (groups) of an rl step', ge=1)
  group_size: int = field(8, 'episodes of a task', ge=1)
  # On both sides. top_p and top_k would sample from another distribution than
  # the log-probabilities describe: there are none.
  temperature: float = field(1.0, 'sampling temperature, on both sides', gt=0)


_STEPWISE = when('horizon.kind', 'stepwise')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Horizon:
  """Turns that an episode may take; see `schedules`."""

  kind: str = field('fixed', 'how the horizon grows', one_of=tuple(HORIZONS))
  turns: tuple[int, ...] = field(
      (30,), 'turns of an episode in each stage', example=(3,)
  )
  every: int = field(0, 'rl steps of a stage', ge=0, acts_if=_STEPWISE)

  def check(self) -> None:
    if not self.turns or min(self.turns) < 1:
      raise ConfigError(
          f'horizon.turns are stages of at least 1 turn, got {self.turns}.'
      )
    if self.kind == 'fixed' and len(self.turns) != 1:
      raise ConfigError(
          "horizon.kind='fixed' takes one stage, got"
          f" horizon.turns={self.turns}; horizon.kind='stepwise' takes several."
      )
    if self.kind == 'stepwise' and self.every < 1:
      raise ConfigError(
          f'A stage lasts at least 1 step, got horizon.every={self.every}.'
      )


_ADAM = when('optim.name', 'adamw', 'adamw8bit', 'muon')
_MUON = when('optim.name', 'muon')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Optim:
  """An optimizer behind a clip of the global norm."""

  lr: float = field(1e-6, 'learning rate', gt=0)
  name: str = field('adamw', 'optimizer', one_of=OPTIMIZERS)
  schedule: str = field(
      'constant', 'learning rate after the warm-up', one_of=SCHEDULES
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Warmstart:
  """Supervised learning on the expert's episodes, before all else."""

  episodes: int = field(0, 'expert episodes to imitate first; 0: none', ge=0)
  epochs: int = field(1, 'passes over them', ge=1)
  minibatch_size: int = field(32, 'episodes of an update', ge=1)
  lr: float = field(1e-3, 'learning rate', gt=0)
  warmup_steps: int = field(0, 'updates of linear warm-up', ge=0)
  schedule: str = field(
      'constant', 'learning rate after the warm-up', one_of=SCHEDULES
  )
  horizon: int = field(30, 'turns of an expert episode, at most', ge=1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Eval:
  """Success on a fixed list of held-out tasks, with an interval.

  A policy without a warm start has no `untrained` evaluation apart from its
  `before`.
  """

  num_tasks: int = field(100, 'held-out tasks; 0: no evaluation', ge=0)
  # It does not grow, so that evaluations compare.
  horizon: int = field(30, 'turns of an episode, at most', ge=1)
  split: str = field('test', 'split of the tasks', one_of=SPLITS)
  task_file: str | None = field(
      None, "AgentGym item file in place of the split's list"
  )
  seed: int = field(0, 'sampling seed, the same at every evaluation')
  temperature: float = field(1.0, 'sampling temperature; 0: greedy', ge=0)
  samples: int = field(1, 'episodes of a task', ge=1)


_EVALUATES = when_set('eval.num_tasks', 8, 'eval.num_tasks is 0')


@dataclasses.dataclass(frozen=True, kw_only=True)
class RlEval(Eval):
  """An evaluation between steps, too."""

  every: int = field(
      0,
      'rl steps between evaluations; 0: before and after',
      ge=0,
      acts_if=_EVALUATES,
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Checkpoint:
  """Saving, where each round is saved."""

  keep: int = field(2, 'newest checkpoints that stay', ge=1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class StepCheckpoint(Checkpoint):
  """Saving."""

  every: int = field(10, 'rl steps or updates between checkpoints', ge=1)


_EXPERT = when_set('data.expert_episodes', 8, 'data.expert_episodes is 0')
_FILES = when_set('data.files', ('a.json',), 'data.files is empty')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Data:
  """Demonstrations: files, the environment's expert, or both."""

  files: tuple[str, ...] = field(
      (),
      'files of conversations or episodes, JSON or JSON lines',
      example=('a.json',),
  )
  expert_episodes: int = field(0, 'training tasks that the expert plays', ge=0)
  expert_horizon: int = field(
      30, 'turns of an expert episode, at most', ge=1, acts_if=_EXPERT
  )
  min_return: float | None = field(
      None, 'least return to imitate in files; None: success', acts_if=_FILES
  )
  # So the policy is asked at evaluation what it was asked in training.
  own_opening: bool = field(
      False, "our instructions in place of a conversation's own", acts_if=_FILES
  )

  def check(self) -> None:
    if not self.files and not self.expert_episodes:
      raise ConfigError(
          'There is nothing to learn from: set data.files or, for the'
          " environment's expert, data.expert_episodes."
      )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Explore:
  """Episodes that the policy plays to learn from them."""

  tasks: int = field(
      374, 'training tasks that the policy plays, each round', ge=0
  )
  samples: int = field(2, 'episodes of a task', ge=1)
  horizon: int = field(30, 'turns of an episode, at most', ge=1)
  temperature: float = field(1.0, 'sampling temperature', gt=0)


_EXPLORES = when_set('explore.tasks', 8, 'explore.tasks is 0')
_PAIRS = when_set('pairs.files', ('a.json',), 'pairs.files is empty')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pairs:
  """Which episodes of a task make a preference pair."""

  files: tuple[str, ...] = field(
      (),
      'files of pairs or episodes; (): explore plays them',
      example=('a.json',),
  )
  gap: float = field(0.01, 'least difference of the returns of a pair', gt=0)
  threshold: float = field(0.7, 'least return of the better episode')
  per_task: int = field(1, 'pairs of a task, at most', ge=1)
  # Those of the warm start where there is one (ETO, arXiv:2403.02502).
  with_expert: bool = field(
      False, "pair the expert's episodes with the policy's", acts_if=_EXPLORES
  )
  own_opening: bool = field(
      False, "our instructions in place of a conversation's own", acts_if=_PAIRS
  )
