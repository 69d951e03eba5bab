"""The whole config of each mode: its sections, and what is about two of them.

`BROUGHT` has the fields that a run brings along where a config is silent: paths
of this mode, and where in the run's own config their values are.
"""

import dataclasses
import json
from collections.abc import Container, Mapping
from typing import Any, ClassVar

from agentrl.algos import hyperparams
from agentrl.config import comparing, examining, sections, studying
from agentrl.envs.options import (
    EnvName,
    EnvOptions,
    EnvServerOptions,
    TrainEnvOptions,
)
from agentrl.errors import ConfigError
from agentrl.fields import ActsIf, field, section, unless_set
from agentrl.inference.options import ChatOptions, is_asked
from agentrl.models.options import DTYPES, Model, TrainModel
from agentrl.parallel.options import Mesh, RlMesh
from agentrl.rollout.options import (
    AgentOptions,
    ContextOptions,
    Limits,
    PlanOptions,
    ReflectOptions,
    Rollout,
)
from agentrl.serving.options import (
    SERVER_DTYPES,
    SHARD_BYTES,
    EmbeddedOptions,
    PolicyServer,
    SamplerOptions,
    TrainSamplerOptions,
)
from agentrl.training.options import Gauges, Optim, RlOptim


def _same(section: str, *names: str) -> dict[str, str]:
  """Fields that have one path in a run's config and in this one."""
  return {f'{section}.{name}': f'{section}.{name}' for name in names}


def _whole(section: str, cls: type) -> dict[str, str]:
  """All fields of a section, which has one path in both."""
  return _same(section, *(field.name for field in dataclasses.fields(cls)))


# How a policy is asked comes with it, wherever it goes on.
_AGENT = (
    _same('agent', 'format', 'instructions', 'template', 'date')
    | _whole('agent.context', ContextOptions)
    | _whole('agent.plan', PlanOptions)
    | _whole('agent.reflect', ReflectOptions)
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mode:
  """Base of the configs of all modes."""

  mode: ClassVar[str]
  BROUGHT: ClassVar[Mapping[str, str]] = {}

  def check(self) -> None:
    """Refuses sections that contradict each other.

    Raises:
      ConfigError: says what, and the way out.
    """


@dataclasses.dataclass(frozen=True, kw_only=True)
class Computing(Mode):
  """A mode that compiles programs."""

  # None: the user's cache folder, or $JAX_COMPILATION_CACHE_DIR.
  compile_cache: str | None = field(
      None, "folder of compiled programs; None: the user's; '': keep none"
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sampling(Computing):
  """A mode in which a policy plays."""

  BROUGHT = _AGENT

  env: EnvOptions
  agent: AgentOptions = section(AgentOptions)
  model: Model
  sampler: SamplerOptions = section(SamplerOptions)
  rollout: Limits

  def check(self) -> None:
    launch, dtype = self.sampler.launch, self.model.dtype
    server_dtype = launch.value_of('--dtype') if launch.python else None
    meaning = SERVER_DTYPES.get(server_dtype or '')
    if server_dtype not in (None, 'auto') and meaning != dtype:
      raise ConfigError(
          f'sampler.launch.flags has --dtype {server_dtype}, and'
          f' model.dtype={dtype!r}: log-probabilities of servers and'
          ' trainer would differ. Leave the flag out, or set model.dtype.'
      )
    agent, room = self.agent, self.rollout.max_context
    context = agent.context
    if context.kind == 'summary' and (
        context.budget + context.summary_tokens >= room
    ):
      raise ConfigError(
          f'agent.context.budget={context.budget} and a summary of'
          f' {context.summary_tokens} tokens do not fit'
          f' rollout.max_context={room}; lower the budget.'
      )
    for path, tokens, acts in (
        ('context.notes_tokens', context.notes_tokens, context.kind == 'notes'),
        ('plan.tokens', agent.plan.tokens, agent.plan.kind != 'none'),
        ('reflect.tokens', agent.reflect.tokens, agent.reflect.attempts > 1),
    ):
      if acts and tokens >= room:
        raise ConfigError(
            f'agent.{path}={tokens} leaves no room for a prompt in'
            f' rollout.max_context={room}; lower it.'
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Learning(Sampling):
  """Base of the modes that learn."""

  seed: int = field(0, 'seed of everything that is drawn')
  env: TrainEnvOptions = section(TrainEnvOptions)
  model: TrainModel = section(TrainModel)
  mesh: Mesh = section(Mesh)
  sampler: TrainSamplerOptions = section(TrainSamplerOptions)
  rollout: Limits = section(Limits)
  optim: Optim = section(Optim)
  eval: sections.LearningEval = section(sections.LearningEval)
  checkpoint: sections.Checkpoint
  track: sections.Track = section(sections.Track)

  @property
  def plays_expert(self) -> bool:
    """True if the expert plays in the environment that is learnt in."""
    raise NotImplementedError

  @property
  def plays_chance(self) -> bool:
    """True if random actions and the expert play the panel of evaluations."""
    return self.eval.num_tasks > 0 and self.eval.chance


@dataclasses.dataclass(frozen=True, kw_only=True)
class Train(Learning):
  """mode='train': online reinforcement learning."""

  mode = 'train'

  num_steps: int = field(100, 'rl steps', ge=1)
  # Runs whose episodes differ in length compare at equal tokens.
  num_tokens: int = field(
      0,
      'sampled tokens: the rl step that reaches them is the last one, if'
      ' num_steps was not before; 0: no such end',
      ge=0,
  )
  mesh: RlMesh = section(RlMesh)
  rollout: Rollout = section(Rollout)
  tasks: sections.TaskOptions = section(sections.TaskOptions)
  horizon: sections.HorizonOptions = section(sections.HorizonOptions)
  algo: hyperparams.Online = section(hyperparams.Grpo)
  optim: RlOptim = section(RlOptim)
  gauges: Gauges = section(Gauges)
  warmstart: sections.Warmstart = section(sections.Warmstart)
  eval: sections.RlEval = section(sections.RlEval)
  checkpoint: sections.RlCheckpoint = section(sections.RlCheckpoint)
  mixture: dict[str, Any] = field(
      {},
      'members of a mixture of environments, each a dict: weight, and what'
      " differs from the run's env, agent, horizon, rollout, eval; see"
      ' --fields=mixture',
      example={'a': {'weight': 1.0}},
  )

  @property
  def episodes_per_step(self) -> int:
    """Episodes of a collection."""
    size = self.rollout.group_size * self.agent.reflect.attempts
    return self.rollout.tasks_per_step * size

  @property
  def plays_expert(self) -> bool:
    return self.warmstart.episodes > 0

  def check(self) -> None:
    super().check()
    rollout, algo = self.rollout, self.algo
    attempts = self.agent.reflect.attempts
    size = rollout.group_size * attempts
    if algo.compares and size < 2:
      raise ConfigError(
          f'{algo.name} compares the episodes of a group: rollout.group_size='
          f'{size} gives every episode the advantage 0. Use at least 2.'
      )
    if algo.ties != 'keep' and size < 2:
      raise ConfigError(
          f'algo.ties={algo.ties!r} leaves out groups of equal returns: with'
          f' rollout.group_size={size} that is every group. Use at least 2.'
      )
    critic = algo.critic_settings
    if critic is not None and critic.warmup >= self.num_steps:
      raise ConfigError(
          f'algo.critic.warmup={critic.warmup} leaves none of the'
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
    rows = self.episodes_per_step
    times = ' * agent.reflect.attempts' if attempts > 1 else ''
    if algo.minibatches > rows:
      raise ConfigError(
          f'algo.minibatches={algo.minibatches} exceed the {rows} episodes of a'
          ' collection (rollout.tasks_per_step * rollout.group_size'
          f'{times}).'
      )
    if rollout.ahead:
      self._check_ahead()
    if (teacher := algo.teacher_settings) is not None:
      self._check_teacher(teacher)
    if self.checkpoint.keep_best and self.eval.every >= self.num_steps:
      raise ConfigError(
          'checkpoint.keep_best compares evaluations, and eval.every='
          f'{self.eval.every} has none before the last of num_steps='
          f'{self.num_steps}: lower eval.every.'
      )
    self._check_held_out()
    if self.eval.small.every >= self.num_steps:
      raise ConfigError(
          f'eval.small.every={self.eval.small.every} has no effect within'
          f' num_steps={self.num_steps}: lower it.'
      )

  def _check_ahead(self) -> None:
    """Refuses to train on old samples as if they were new."""
    rollout, algo = self.rollout, self.algo
    ahead = f'rollout.ahead={rollout.ahead}'
    if not algo.corrects:
      raise ConfigError(
          f'{ahead} trains on samples of earlier policies, and algo.ratio='
          f"{algo.ratio!r} compares with the present one's log-probabilities:"
          " no ratio would be clipped. Set algo.ratio='sampler', or correct by"
          ' algo.importance_cap=2, or by algo.sequence_low and'
          ' algo.sequence_high.'
      )
    if rollout.ahead >= self.num_steps:
      raise ConfigError(
          f'{ahead} collections are more than follow the first of num_steps='
          f'{self.num_steps}: lower it.'
      )

  def _check_teacher(self, teacher: hyperparams.Teacher) -> None:
    """Refuses a teacher that would score something else than was sampled."""
    if self.rollout.temperature != 1.0:
      raise ConfigError(
          f'rollout.temperature={self.rollout.temperature}: servers score at'
          ' temperature 1, so the teacher and the policy would not compare. Set'
          ' rollout.temperature=1.'
      )
    agent = self.agent
    if teacher.hint and (
        agent.context.kind != 'full'
        or agent.plan.kind != 'none'
        or agent.reflect.attempts > 1
    ):
      raise ConfigError(
          'algo.teacher.hint joins the one prompt of an episode: it needs'
          " agent.context.kind='full', no agent.plan and no agent.reflect."
      )

  def _check_held_out(self) -> None:
    """Refuses a horizon that follows evaluations which never come."""
    horizon, eval = self.horizon, self.eval
    if horizon.metric == 'rollout':
      return
    name = f'horizon.metric={horizon.metric!r}'
    # The whole panel's episodes give the small one's figures as well.
    small = horizon.metric == 'eval_small'
    intervals = (eval.every, eval.small.every) if small else (eval.every,)
    between = any(0 < every < self.num_steps for every in intervals)
    played = eval.small.num_tasks if small else eval.num_tasks
    if not (played and between):
      panel = 'eval.small' if small else 'eval'
      raise ConfigError(
          f'{name} waits for evaluations between steps, and none would come:'
          f' set {panel}.num_tasks, and {panel}.every below num_steps='
          f"{self.num_steps}, or horizon.metric='rollout'."
      )
    if max(horizon.held_out, default=1) > eval.horizon:
      raise ConfigError(
          f'{name} is success within horizon.turns={horizon.turns}, and an'
          f' evaluation ends at eval.horizon={eval.horizon}: raise it.'
      )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sft(Learning):
  """mode='sft': supervised fine-tuning."""

  mode = 'sft'

  data: sections.Data = section(sections.Data)
  algo: hyperparams.Sft = section(hyperparams.Sft)
  checkpoint: sections.StepCheckpoint = section(sections.StepCheckpoint)

  @property
  def plays_expert(self) -> bool:
    return self.data.expert_episodes > 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dpo(Learning):
  """mode='dpo': learning from preferences."""

  mode = 'dpo'

  warmstart: sections.Warmstart = section(sections.Warmstart)
  explore: sections.Explore = section(sections.Explore)
  pairs: sections.Pairs = section(sections.Pairs)
  algo: hyperparams.Dpo = section(hyperparams.Dpo)
  checkpoint: sections.StepCheckpoint = section(sections.StepCheckpoint)

  @property
  def plays_expert(self) -> bool:
    return self.warmstart.episodes > 0 or self.pairs.with_expert

  def check(self) -> None:
    super().check()
    if bool(self.pairs.files) == bool(self.explore.tasks):
      raise ConfigError(
          'Pairs come from pairs.files or from episodes of explore.tasks'
          f' tasks, one of the two; got files={self.pairs.files!r} and'
          f' tasks={self.explore.tasks}.'
      )
    alone = self.explore.samples < 2 and not self.pairs.with_expert
    if self.explore.tasks and alone:
      raise ConfigError(
          'A pair needs two episodes of a task: explore.samples=1 makes none.'
      )
    if self.model.from_scratch and not self.warmstart.episodes:
      raise ConfigError(
          'A tiny policy needs warmstart.episodes: its tokenizer is trained on'
          " the expert's episodes."
      )


@dataclasses.dataclass(frozen=True, kw_only=True)
class AgentEvol(Learning):
  """mode='agentevol': rounds of exploring and of imitating what went well."""

  mode = 'agentevol'

  num_steps: int = field(
      4, 'rounds of exploration and training after the first', ge=1
  )
  data: sections.Data = section(sections.Data)
  explore: sections.Explore = section(sections.Explore)
  algo: hyperparams.AgentEvol = section(hyperparams.AgentEvol)
  checkpoint: sections.RoundCheckpoint = section(sections.RoundCheckpoint)

  @property
  def plays_expert(self) -> bool:
    return self.data.expert_episodes > 0

  def check(self) -> None:
    super().check()
    if not self.explore.tasks:
      raise ConfigError('explore.tasks must be at least 1, got 0.')


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluateLimits(Limits):
  """Limits that suit a model which no run trained."""

  max_completion_tokens: int = field(256, 'tokens of a turn, at most', ge=1)
  max_context: int = field(4096, 'tokens of a context, at most', ge=2)


_AT_URL = ActsIf(
    lambda config: config.model.name.startswith(('http://', 'https://')),
    {'model.name': 'http://127.0.0.1:1'},
    'weights that are loaded here bring their tokenizer; it acts with the URL'
    ' of a server',
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluateModel(Model):
  """Policies to evaluate."""

  name: str = field(
      'smollm2-135m',
      'variant, directory, .gguf, hub name, run or its checkpoints/N or'
      ' checkpoints/best, URL of a server, api, expert, random; several as A;B',
  )
  tokenizer: str | None = field(
      None,
      'model or directory with the tokenizer of servers; None: as they say',
      acts_if=_AT_URL,
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluate(Sampling):
  """mode='evaluate': success of policies on held-out tasks."""

  mode = 'evaluate'
  BROUGHT = (
      _AGENT
      | _same('env', 'name', 'options', 'url', 'token_file')
      | _same('env', 'retry_s', 'timeout_s')
      | _same('model', 'dtype')
      | _same('rollout', 'max_completion_tokens', 'max_context', 'concurrency')
      | _same('eval', 'num_tasks', 'horizon', 'split', 'task_file')
      | _same('eval', 'seed', 'samples')
  )

  env: EnvOptions = section(EnvOptions)
  model: EvaluateModel = section(EvaluateModel)
  rollout: EvaluateLimits = section(EvaluateLimits)
  eval: sections.PanelEval = section(sections.PanelEval)
  api: ChatOptions = section(ChatOptions)

  def check(self) -> None:
    super().check()
    if is_asked(self):
      self.api.check_named()


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServeEnv(Mode):
  """mode='serve_env': one environment behind HTTP."""

  mode = 'serve_env'

  env: EnvName = section(EnvName)
  serve: EnvServerOptions = section(EnvServerOptions)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServePolicy(Computing):
  """mode='serve_policy': the engine behind SGLang's and OpenAI's HTTP."""

  mode = 'serve_policy'
  BROUGHT = {
      'model.dtype': 'model.dtype',
      'serve.max_context': 'rollout.max_context',
      'serve.chat_template': 'agent.template',
      'serve.chat_date': 'agent.date',
  }

  model: Model = section(Model)
  sampler: EmbeddedOptions = section(EmbeddedOptions)
  serve: PolicyServer = section(PolicyServer)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shown:
  """Which tokens are shown."""

  episodes: str = field('', 'episode file')
  tokenizer: str | None = field(
      None, "name or directory of a model; None: the run's"
  )
  num_groups: int = field(2, 'groups of the file to show', ge=1)
  html: str | None = field(None, 'page to write; None: beside the episodes')

  def check(self) -> None:
    if not self.episodes:
      raise ConfigError(
          'Name an episode file: --config=configs/inspect.py:episodes=FILE'
      )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inspect(Computing):
  """mode='inspect': what will be trained, token by token."""

  mode = 'inspect'

  inspect: Shown = section(Shown)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compare(Mode):
  """mode='compare': which of two policies, or algorithms, is better."""

  mode = 'compare'

  compare: comparing.Compared = section(comparing.Compared)
  plan: comparing.Planned = section(comparing.Planned)

  def check(self) -> None:
    comparing.check_plan(self.compare, self.plan)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Study(Mode):
  """mode='study': all runs of a folder as one page, and as tables."""

  mode = 'study'

  study: studying.Studied = section(studying.Studied)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source:
  """A checkpoint of a run."""

  path: str = field(
      '', 'workdir of a run, or its checkpoints/N or checkpoints/best'
  )
  step: int | None = field(
      None, 'number of the checkpoint; None: the newest', example=3
  )

  def check(self) -> None:
    if not self.path:
      raise ConfigError(
          'Name a run: --config.checkpoint.path=WORKDIR, or one of its'
          ' checkpoints: WORKDIR/checkpoints/N or checkpoints/best'
      )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Folder:
  """A Hugging Face folder."""

  # 'source': as the run's own model has.
  dtype: str = field(
      'float32',
      "type of the weights; 'source': the first model's",
      one_of=(*DTYPES, 'source'),
  )
  shard_bytes: int = field(
      SHARD_BYTES,
      'bytes of a file, at most',
      ge=1,
      acts_if=unless_set('export.adapter', False, 'an adapter is one file'),
  )
  # peft's format. Whoever loads it needs its base as well.
  adapter: bool = field(
      False, 'write the adapter that the run trained, not merged into its base'
  )

  def check(self) -> None:
    if self.adapter and self.dtype == 'source':
      raise ConfigError(
          "export.dtype='source' is the type of the base, and export.adapter"
          " writes none of it: use 'float32' or 'bfloat16'."
      )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Export(Computing):
  """mode='export': a checkpoint as a Hugging Face folder."""

  mode = 'export'

  checkpoint: Source = section(Source)
  export: Folder = section(Folder)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Doctor(Mode):
  """mode='doctor': what this machine lacks for a config."""

  mode = 'doctor'

  doctor: examining.Examined = section(examining.Examined)


@dataclasses.dataclass(frozen=True, kw_only=True)
class View(Mode):
  """mode='view': pages that show runs and their episodes."""

  mode = 'view'

  view: sections.View = section(sections.View)


_LEARN = (Train, Sft, Dpo, AgentEvol)
_REST = (
    Evaluate,
    Compare,
    Study,
    ServeEnv,
    ServePolicy,
    Inspect,
    Export,
    Doctor,
    View,
)
MODES = {cls.mode: cls for cls in _LEARN + _REST}


def record(config: Mode) -> dict[str, Any]:
  """Every value of a config, as JSON has it: what a workdir keeps."""
  values = {'mode': config.mode, **dataclasses.asdict(config)}
  if isinstance(config, Train):
    values['algo'] = {'name': config.algo.name, **values['algo']}
  return json.loads(json.dumps(values))


def flat(
    values: Mapping[str, Any], paths: Container[str] = (), prefix: str = ''
) -> dict[str, Any]:
  """Values by dotted paths; a dict that is a known field's value stays one."""
  result: dict[str, Any] = {}
  for name, value in values.items():
    path = prefix + name
    if isinstance(value, Mapping) and path not in paths:
      result |= flat(value, paths, f'{path}.')
    else:
      result[path] = value
  return result
