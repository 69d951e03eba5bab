"""Sections that several modes have, each field said once.

A section checks itself where more than one of its fields is concerned; what is
about two sections, `modes` checks.
"""

import dataclasses
from typing import Any

from agentrl.algos.hyperparams import PROMPT_WEIGHT
from agentrl.envs import ENVS
from agentrl.envs.spec import SPLITS
from agentrl.errors import ConfigError
from agentrl.fields import (
    ActsIf,
    field,
    section,
    unless_set,
    when,
    when_set,
)
from agentrl.schedules import HORIZONS, SUCCESS
from agentrl.trackers import KINDS
from agentrl.training.options import SCHEDULES

_BY_STEPS = when('horizon.kind', 'stepwise', 'linear', own=True)
_BY_METRIC = when('horizon.kind', 'success', 'saturation', own=True)
_BY_SUCCESS = when('horizon.kind', 'success', own=True)
_BY_TOKENS = when('horizon.kind', 'token_budget', own=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class HorizonOptions:
  """Turns that an episode may take; see `schedules`."""

  # 'success': on once this share of episodes succeeds; 'saturation': on once
  # this share of episodes is cut by the horizon, in groups whose returns
  # differ; 'random': each episode draws its own, from the first of `turns` to
  # the second.
  kind: str = field(
      'fixed', 'how the horizon grows', one_of=tuple(HORIZONS), own=True
  )
  turns: tuple[int, ...] = field(
      (30,), 'turns of an episode in each stage', example=(3,)
  )
  every: int = field(0, 'rl steps of a stage', ge=0, acts_if=_BY_STEPS)
  threshold: float = field(
      0.5, 'share at which a stage ends', gt=0, le=1, acts_if=_BY_METRIC
  )
  window: int = field(
      5,
      'rl steps, or evaluations, over which that share is a mean',
      ge=1,
      acts_if=_BY_METRIC,
  )
  # Of an evaluation, success within as many turns as the stage allows.
  metric: str = field(
      'rollout',
      'success of the episodes that are learnt from, of evaluations, or of'
      ' those on the small panel',
      one_of=tuple(SUCCESS),
      acts_if=_BY_SUCCESS,
  )
  tokens: float = field(
      0.0, 'sampled tokens of a stage', ge=0, acts_if=_BY_TOKENS
  )

  def check(self) -> None:
    if not self.turns or min(self.turns) < 1:
      raise ConfigError(
          f'horizon.turns are stages of at least 1 turn, got {self.turns}.'
      )
    if self.kind in HORIZONS and list(self.turns) != sorted(self.turns):
      raise ConfigError(
          'horizon.turns do not fall from one stage to the next, got'
          f' {self.turns}. For others bring a schedule of your own,'
          ' horizon.kind=module:NAME.'
      )
    if self.kind == 'random' and (
        len(self.turns) != 2 or self.turns[0] == self.turns[1]
    ):
      raise ConfigError(
          "horizon.kind='random' draws from the first to the second of two"
          f' turns, got horizon.turns={self.turns}.'
      )
    if self.kind == 'fixed' and len(self.turns) != 1:
      raise ConfigError(
          "horizon.kind='fixed' takes one stage, got"
          f" horizon.turns={self.turns}; horizon.kind='stepwise' takes several."
      )
    if self.kind in ('stepwise', 'linear') and self.every < 1:
      raise ConfigError(
          f'A stage lasts at least 1 step, got horizon.every={self.every}.'
      )
    if self.kind == 'token_budget' and not self.tokens:
      raise ConfigError(
          'horizon.tokens=0 ends every stage at once: set the tokens that are'
          ' sampled in a stage.'
      )

  @property
  def held_out(self) -> tuple[int, ...]:
    """Turns of the stages that end by held-out success; () where none does."""
    return () if self.metric == 'rollout' else self.turns[:-1]


_STAGES = when('tasks.order', 'stages')


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskOptions:
  """The order of the tasks that are trained on; see `data.tasks`."""

  # 'stages': some kinds of tasks first, more once those are mastered.
  order: str = field(
      'shuffled', 'order of the tasks', one_of=('shuffled', 'stages')
  )
  # Kinds are the rows of tables, as `EnvSpec.subtask` names them.
  stages: tuple[tuple[str, ...], ...] = field(
      (),
      "kinds of tasks that each stage adds; (): one each, in the list's order",
      acts_if=_STAGES,
      example=(('depth 1',), ('depth 2',)),
  )
  threshold: float = field(
      0.6,
      'success of the episodes that are learnt from at which a stage ends',
      gt=0,
      le=1,
      acts_if=_STAGES,
  )
  window: int = field(
      2, 'rl steps over which that is a mean', ge=1, acts_if=_STAGES
  )

  def check(self) -> None:
    kinds = [kind for stage in self.stages for kind in stage]
    if len(set(kinds)) < len(kinds) or not all(self.stages):
      raise ConfigError(
          'Each of tasks.stages adds a kind of tasks, which no other one adds;'
          f' got {self.stages}.'
      )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Warmstart:
  """Supervised learning on the expert's episodes, before all else."""

  episodes: int = field(0, 'expert episodes to imitate first; 0: none', ge=0)
  epochs: int = field(1, 'passes over them', ge=1)
  minibatch_size: int = field(32, 'episodes of an update', ge=1)
  lr: float = field(1e-3, 'learning rate', gt=0)
  warmup_steps: int = field(0, 'updates of linear warm-up', ge=0)
  schedule: str = field(
      'constant',
      'learning rate after the warm-up',
      one_of=SCHEDULES,
      own=True,
  )
  horizon: int = field(30, 'turns of an expert episode, at most', ge=1)
  prompt_weight: float = field(0.0, PROMPT_WEIGHT, ge=0)
  stumbles: float = field(
      0.0,
      "share of the expert's actions that are nonsense, see rollout.expert:"
      ' what it does next is learnt',
      ge=0,
      lt=1,
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Eval:
  """Success on a fixed list of held-out tasks, with an interval.

  A policy without a warm start has no `untrained` evaluation apart from its
  `before`.
  """

  num_tasks: int = field(100, 'held-out tasks; 0: no evaluation', ge=0)
  # It does not grow, so that evaluations compare.
  horizon: int = field(30, 'turns of an episode, at most', ge=1)
  split: str = field(
      'test',
      'split of the tasks',
      one_of=SPLITS,
      acts_if=unless_set(
          'eval.task_file', None, 'eval.task_file says which tasks'
      ),
  )
  task_file: str | None = field(
      None, "AgentGym item file in place of the split's list"
  )
  seed: int = field(0, 'sampling seed, the same at every evaluation')
  temperature: float = field(1.0, 'sampling temperature; 0: greedy', ge=0)
  samples: int = field(1, 'episodes of a task', ge=1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PanelEval(Eval):
  """One panel of held-out tasks, or several."""

  num_tasks: int = field(100, 'held-out tasks', ge=1)
  # In place of env.name: {'env': {'name': ..., 'options': ...}, 'eval': {...}},
  # with what differs from the defaults. Flags are over it.
  panels: tuple[dict[str, Any], ...] = field(
      (),
      'panels of several environments, see configs/suites.py',
      example=({'env': {'name': next(iter(ENVS))}, 'eval': {'num_tasks': 8}},),
  )
  temperature: float = field(
      1.0,
      'sampling temperature; 0: greedy',
      ge=0,
      acts_if=unless_set(
          'eval.temperatures', (), 'eval.temperatures has all of them'
      ),
  )
  temperatures: tuple[float, ...] = field(
      (),
      'several, each as a policy of its own; (): eval.temperature',
      ge=0,
      example=(0.0, 0.5, 1.0),
  )
  curves: bool = field(
      False,
      'write curves.json, .md, .png: success by turns, tokens, temperature',
  )


_EVALUATES = when_set('eval.num_tasks', 8, 'eval.num_tasks is 0')


@dataclasses.dataclass(frozen=True, kw_only=True)
class LearningEval(Eval):
  """An evaluation of a policy that learns."""

  # Once a panel: the user's cache keeps them for the runs that follow.
  chance: bool = field(
      True,
      'play random actions and the expert on the same tasks, in a tenth of the'
      " evaluation's time",
      acts_if=_EVALUATES,
  )


_SMALL = when_set('eval.small.num_tasks', 4, 'eval.small.num_tasks is 0')
_WARM = when_set('warmstart.episodes', 8, 'warmstart.episodes is 0')
_OFTEN = when_set('eval.small.every', 1, 'eval.small.every is 0')


@dataclasses.dataclass(frozen=True, kw_only=True)
class SmallEval:
  """A part of the panel that is played more often than the whole.

  Where the whole is played, its episodes give the part's figures as well.
  """

  num_tasks: int = field(
      0,
      'tasks of the part; 0: there is none',
      ge=0,
      acts_if=(_EVALUATES, _OFTEN),
  )
  every: int = field(
      0, 'rl steps between its evaluations', ge=0, acts_if=_SMALL
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class RlEval(LearningEval):
  """An evaluation between steps, too."""

  every: int = field(
      0,
      'rl steps between evaluations; 0: before and after',
      ge=0,
      acts_if=_EVALUATES,
  )
  # A pretrained policy that does not know the format writes to the limit of
  # every turn: its evaluation may take longer than the rest.
  untrained: bool = field(
      True,
      'evaluate before the warm start as well',
      acts_if=(_EVALUATES, _WARM),
  )
  small: SmallEval = section(SmallEval)

  def check(self) -> None:
    small = self.small
    if small.num_tasks and small.num_tasks >= self.num_tasks:
      raise ConfigError(
          f'eval.small.num_tasks={small.num_tasks} is a part of'
          f' eval.num_tasks={self.num_tasks}: take fewer, or 0 for none.'
      )
    if self.every and small.every >= self.every:
      raise ConfigError(
          f'eval.small.every={small.every} is for evaluations more often than'
          f' eval.every={self.every}: lower it, or leave eval.small out.'
      )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Checkpoint:
  """Retention of checkpoints."""

  keep: int = field(2, 'newest checkpoints that stay', ge=1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RoundCheckpoint(Checkpoint):
  """Saving after each round, which is evaluated before."""

  keep_best: bool = field(
      False,
      'the checkpoint with the best held-out success stays, too',
      acts_if=_EVALUATES,
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class StepCheckpoint(Checkpoint):
  """Saving."""

  every: int = field(10, 'rl steps or updates between checkpoints', ge=1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RlCheckpoint(StepCheckpoint):
  """Saving, where the policy is evaluated between steps."""

  keep_best: bool = field(
      False,
      'the checkpoint with the best held-out success stays, too',
      acts_if=when_set(
          'eval.every',
          1,
          'eval.every is 0, so no step is evaluated but the ends',
      ),
  )
  # A step of 64 short episodes takes some hundred kilobytes, and with their tokens
  # ten times as much.
  keep_episodes: int | None = field(
      None,
      'newest rl steps whose episode files stay; None: all',
      ge=1,
      example=100,
  )


_WANDB = ActsIf(
    lambda config: 'wandb' in config.track.to,
    {'track.to': ('wandb',)},
    "it is for Weights & Biases: track.to='wandb'",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Track:
  """Destinations of metrics besides `metrics.jsonl`; see `trackers`."""

  to: tuple[str, ...] = field(
      ('tensorboard',), 'trackers', one_of=KINDS, own=True
  )
  project: str = field('agentrl', 'project of the run', acts_if=_WANDB)
  name: str | None = field(
      None, "name of the run; None: the workdir's", acts_if=_WANDB
  )

  def check(self) -> None:
    if len(set(self.to)) < len(self.to):
      raise ConfigError(f'track.to names a tracker twice: {self.to}.')


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


@dataclasses.dataclass(frozen=True, kw_only=True)
class View:
  """The viewer's server."""

  host: str = field('127.0.0.1', 'address to listen on')
  port: int = field(7000, 'port to listen on; 0: a free one', ge=0, le=65535)
  # Required where `host` is no loopback address.
  token_file: str | None = field(
      None, 'file with the token that the link carries; None: none'
  )
  # Their modules are imported: episodes and configs that are shown cannot name
  # any.
  environments: tuple[str, ...] = field(
      (),
      'environments of your own to play in, module:NAME each',
      example=('my_package.my_env:SPEC',),
  )
  # Live play asks them for tokens; the page names them by number only.
  samplers: tuple[str, ...] = field(
      (),
      "URLs of servers that speak SGLang's protocol, for live play",
      example=('http://127.0.0.1:1',),
  )
  sampler_key_file: str | None = field(
      None,
      "file with the samplers' API key, which no page gets; None: none",
      acts_if=when_set(
          'view.samplers',
          ('http://127.0.0.1:1',),
          'only samplers are asked with it; list their URLs',
      ),
  )
