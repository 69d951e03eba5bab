"""Sections of a config about episodes; imports no jax."""

import dataclasses

from agentrl import fields
from agentrl.envs import formats, prompts
from agentrl.errors import ConfigError
from agentrl.fields import (
    ActsIf,
    field,
    section,
    unless_set,
    when,
    when_set,
)

CONTEXTS = ('full', 'window', 'summary', 'fold', 'notes')
PLANS = ('none', 'start', 'failure', 'every')
_WINDOW = when('agent.context.kind', 'window', 'notes')
_AHEAD = ActsIf(
    lambda config: config.rollout.ahead > 0,
    {'rollout.ahead': 1, 'algo.ratio': 'sampler'},
    'nothing is played ahead of the learner with rollout.ahead=0',
)
_SUMMARY = when('agent.context.kind', 'summary')
_FOLD = when('agent.context.kind', 'fold')
_NOTES = when('agent.context.kind', 'notes')
_PLANS = when('agent.plan.kind', *PLANS[1:])
_REFLECTS = ActsIf(
    lambda config: config.agent.reflect.attempts > 1,
    {'agent.reflect.attempts': 2},
    'agent.reflect.attempts=1 leaves no attempt to learn from',
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ContextOptions:
  """Parts of a long episode that the policy still sees, see `context`."""

  kind: str = field(
      'full', 'what the policy still sees', one_of=CONTEXTS, own=True
  )
  window: int = field(
      2, 'observations that stay, beside the first', ge=1, acts_if=_WINDOW
  )
  budget: int = field(
      1024, 'tokens at which the policy summarises', ge=1, acts_if=_SUMMARY
  )
  summary_tokens: int = field(
      128, 'tokens of a summary, at most', ge=1, acts_if=_SUMMARY
  )
  learn_summary: bool = field(
      True, 'train on the tokens of summaries', acts_if=_SUMMARY
  )
  branches: int = field(
      4, 'sub-tasks of an episode, at most', ge=1, acts_if=_FOLD
  )
  notes_tokens: int = field(
      128, 'tokens of the notes, at most', ge=1, acts_if=_NOTES
  )

  def check(self) -> None:
    if self.kind == 'summary' and self.summary_tokens >= self.budget:
      raise ConfigError(
          f'agent.context.summary_tokens={self.summary_tokens} is no summary of'
          f' agent.context.budget={self.budget} tokens; make it smaller.'
      )


FULL_CONTEXT = ContextOptions()


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlanOptions:
  """Plans that the policy writes before it acts, see `plan`."""

  # All kinds but 'none' begin an episode with a plan.
  kind: str = field(
      'none',
      "when the policy plans; 'failure', 'every': also anew",
      one_of=PLANS,
  )
  every: int = field(
      4,
      'actions between two plans',
      ge=1,
      acts_if=when('agent.plan.kind', 'every'),
  )
  tokens: int = field(
      128, 'tokens of a plan, which is cut there', ge=1, acts_if=_PLANS
  )
  learn: bool = field(True, 'train on the tokens of plans', acts_if=_PLANS)


NO_PLAN = PlanOptions()


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReflectOptions:
  """Attempts at one task in sequence, see `reflection`."""

  attempts: int = field(
      1, 'attempts at a task, each with the lesson of the one before', ge=1
  )
  tokens: int = field(
      256, 'tokens of a lesson, which is cut there', ge=1, acts_if=_REFLECTS
  )
  learn: bool = field(True, 'train on the tokens of lessons', acts_if=_REFLECTS)


ONE_ATTEMPT = ReflectOptions()


@dataclasses.dataclass(frozen=True, kw_only=True)
class AgentOptions:
  """The policy's way of talking; a run brings its own."""

  format: str = field(
      'react', 'action format', one_of=tuple(formats.FORMATS), own=True
  )
  # A file's text is what is recorded: it may change, and the run goes on.
  instructions: str = field(
      'full',
      'length of the instructions, or a text with {environment}, {format} and'
      ' {functions} in it',
      one_of=prompts.STYLES,
      own=True,
      file=True,
  )
  # None: the tokenizer's own where that is append-only, or ours for its family.
  template: str | None = field(
      None, 'chat template, a name of text.chat.TEMPLATES', example='chatml'
  )
  # Of the first start where it is left open, and kept: a run that goes on, or is
  # gone on from, on another day has the same prompts.
  date: str | None = field(
      None,
      'day that a chat template is told, YYYY-MM-DD; None: of the first start',
      example='2026-01-31',
  )
  context: ContextOptions = section(ContextOptions)
  plan: PlanOptions = section(PlanOptions)
  reflect: ReflectOptions = section(ReflectOptions)

  def check(self) -> None:
    fields.check_day('agent.date', self.date)
    if self.format != 'tools':
      return
    # What follows a completion is then an answer of a tool, and no request of ours.
    for path, value, plain in (
        ('plan.kind', self.plan.kind, 'none'),
        ('reflect.attempts', self.reflect.attempts, 1),
    ):
      if value != plain:
        raise ConfigError(
            f"agent.format='tools' has no place for agent.{path}={value!r}; use"
            " 'function_calling'."
        )
    if self.context.kind == 'summary':
      raise ConfigError(
          "agent.format='tools' has no place for the request of a summary; use"
          " 'function_calling', or agent.context.kind='window'."
      )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
  """Limits of an episode, and of episodes at a time."""

  max_completion_tokens: int = field(512, 'tokens of a turn, at most', ge=1)
  max_context: int = field(8192, 'tokens of a context, at most', ge=2)
  concurrency: int = field(64, 'episodes at a time', ge=1)
  deadline_s: float = field(600.0, 'seconds of an episode, at most', gt=0)
  attempts: int = field(
      3, 'tries of an episode that the infrastructure failed', ge=1
  )
  max_failed_share: float = field(
      0.5, 'share of failed episodes beyond which the run stops', ge=0, le=1
  )
  save_tokens: bool = field(True, 'write token arrays into the episode files')
  # Where the environment draws itself: a page of MiniWoB, a grid of BabyAI.
  save_views: bool = field(
      False, "write the environment's pictures beside the episode files"
  )

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
  group_size: int = field(
      8, 'first attempts at a task; see agent.reflect', ge=1
  )
  reward: str = field(
      'environment',
      'what an episode earns while it trains; evaluations count the'
      " environment's; a model as judge is agentrl.evaluation.grader:reward",
      one_of=('environment',),
      own=True,
      example='my_parts.py:reward',
  )
  # 0: collecting and updating take turns.
  ahead: int = field(
      0,
      'collections that are played while earlier ones are trained on, see'
      ' rollout.pipeline',
      ge=0,
  )
  # Equal to `ahead`, slow groups are waited for as long as without.
  max_staleness: int | None = field(
      None,
      'weight pushes that a group may be behind when it is trained on; None:'
      ' 2 * ahead + 1',
      ge=1,
      acts_if=_AHEAD,
      example=3,
  )
  # Runs that play ahead depend on how fast each episode was; see rollout.recorded.
  recorded: str | None = field(
      None,
      'workdir of a run whose collections are trained on again, step by step',
      acts_if=unless_set(
          'rollout.ahead', 0, 'a record says itself what was ahead'
      ),
      example='runs/ahead',
  )
  resample: bool = field(
      False,
      'play those again, each turn by the weights that it had; False: train on'
      ' the episodes as they are',
      acts_if=when_set(
          'rollout.recorded', 'runs/ahead', 'rollout.recorded names no run'
      ),
  )
  # On both sides. top_p and top_k would sample from another distribution than
  # the log-probabilities describe: there are none.
  temperature: float = field(1.0, 'sampling temperature, on both sides', gt=0)

  @property
  def staleness_bound(self) -> int:
    """`max_staleness`, or what stands for None."""
    bound = self.max_staleness
    return 2 * self.ahead + 1 if bound is None else bound

  def check(self) -> None:
    super().check()
    if self.staleness_bound < self.ahead:
      raise ConfigError(
          f'rollout.max_staleness={self.max_staleness} is below rollout.ahead='
          f'{self.ahead}, by which groups are behind on average: raise it, to'
          ' twice that and one, say, or lower rollout.ahead.'
      )
