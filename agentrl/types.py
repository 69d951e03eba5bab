"""The values that travel through the host world: stdlib dataclasses, frozen.

Nothing here imports more than the standard library, so that an environment
server, a viewer and a trainer can share them.
"""

import dataclasses
import itertools
import math
from collections.abc import Iterable
from typing import NamedTuple

# Why an episode stopped. The first is the environment's word, the next two are
# our cuts (truncation), the rest are failures of the infrastructure.
TERMINATED = 'terminated'
HORIZON = 'horizon'  # the turns that the schedule allows are used up
CONTEXT = 'context'  # no room is left for another completion
TIMEOUT = 'timeout'  # the episode's deadline passed
ENV_ERROR = 'env_error'
ENGINE_ERROR = 'engine_error'

STOP_REASONS = (
    TERMINATED,
    HORIZON,
    CONTEXT,
    TIMEOUT,
    ENV_ERROR,
    ENGINE_ERROR,
)
TRUNCATIONS = (HORIZON, CONTEXT)
FAILURES = (TIMEOUT, ENV_ERROR, ENGINE_ERROR)


def is_same_return(a: float, b: float) -> bool:
  """True if two returns differ by the rounding of their sums at most.

  Rewards such as 0.17 are not exact in binary: equal scores that are sums of
  other parts differ, and 0.1 + 0.2 - 0.3 is not 0. `ops.advantage` gives groups
  of equal returns no advantage by the same relative limit.
  """
  return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-12)


def is_at_least(value: float, limit: float) -> bool:
  """True if a return, or the difference of two, reaches a limit, up to rounding."""
  return value >= limit or is_same_return(value, limit)


class Turns(NamedTuple):
  """A range that each episode's own horizon is drawn from, ends included."""

  low: int
  high: int


@dataclasses.dataclass(frozen=True)
class Message:
  """One message of a conversation."""

  role: str  # 'system' | 'user' | 'assistant'
  content: str


@dataclasses.dataclass(frozen=True)
class Conversation:
  """An episode in words alone, recorded elsewhere."""

  name: str  # of the record, for files
  env: str  # '' when the record does not say
  task_id: int
  messages: tuple[Message, ...]
  learn: tuple[bool, ...]  # by message: True on completions to learn from
  # Indexes of completions that were cut before their end token.
  cut: tuple[int, ...] = ()
  where: str = ''  # file and line of the record; '': it is of none


@dataclasses.dataclass(frozen=True)
class StepResult:
  """An environment's answer to one action."""

  observation: str
  reward: float  # of this step alone: a delta, never a running sum
  terminated: bool  # the environment says the task is over
  truncated: bool = False  # the environment cut the episode (its own limit)
  success: bool | None = None  # the task's verdict; None: not known (yet)
  # Share of the task that is done, within [0, 1]; None: not reported.
  progress: float | None = None


@dataclasses.dataclass(frozen=True)
class Completion:
  """A sampler's answer to one request: ids, never text."""

  tokens: tuple[int, ...]  # sampled ids, the end token included when sampled
  logprobs: tuple[float, ...]  # log p of each at the sampling temperature
  finish_reason: str  # 'stop' | 'length' | 'abort'
  weight_version: str
  prompt_tokens: int
  cached_tokens: int | None  # of the prompt; None: not reported
  latency_s: float
  # (weight version, ids sampled under it), where a push came in between.
  spans: tuple[tuple[str, int], ...] = ()

  @property
  def completion_tokens(self) -> int:
    return len(self.tokens)


@dataclasses.dataclass(frozen=True)
class TextCompletion:
  """A chat endpoint's answer to one request: text, never ids.

  Token counts are the endpoint's; None: it does not report them.
  """

  text: str
  # 'stop' | 'length' | 'content_filter', its own word, or 'unknown'
  finish_reason: str
  weight_version: str  # the model as the endpoint names it
  prompt_tokens: int | None
  cached_tokens: int | None
  completion_tokens: int | None
  latency_s: float


# What a completion is for. Only the first goes to the environment, and only it
# counts towards the horizon.
ACT = 'act'
SUMMARY = 'summary'  # of the turns so far, for the next segment
PLAN = 'plan'  # before an action
LESSON = 'lesson'  # from the attempt before, at the beginning of this one
BRANCH = 'branch'  # opens a sub-task
RETURN = 'return'  # ends it with a result
NOTE = 'note'  # edits the notes
TURN_KINDS = (ACT, SUMMARY, PLAN, LESSON, BRANCH, RETURN, NOTE)


@dataclasses.dataclass(frozen=True)
class Turn:
  """One completion and the observation that answers it.

  Token counts are None where a chat endpoint does not report them: unknown, and
  not 0. A deterministic engine reports no `cached_tokens`.
  """

  completion: str  # decoded for people and for the environment
  action: str
  parse_error: str | None  # why no action was found; None when one was
  observation: str
  reward: float
  finish_reason: str
  prompt_tokens: int | None
  cached_tokens: int | None
  completion_tokens: int | None
  weight_version: str
  sampler_s: float
  env_s: float
  progress: float | None = None  # as `StepResult.progress`, after this turn
  kind: str = ACT  # one of TURN_KINDS
  learn: bool = True  # False: its tokens are sampled, and no loss sees them
  # Words that asked for it, after the prompt or the observation before it.
  request: str = ''
  # The environment's, where a function of the run's own gave `reward`.
  env_reward: float | None = None
  # (weight version, ids sampled under it), where a push came in between; the last
  # one is `weight_version`.
  spans: tuple[tuple[str, int], ...] = ()
  # When the policy was asked, in seconds since 1970; None: not recorded.
  began: float | None = None

  @property
  def sampled_by(self) -> tuple[tuple[str, int], ...]:
    """(weight version, ids sampled under it), in order; also of one version."""
    return self.spans or ((self.weight_version, self.completion_tokens or 0),)

  def __post_init__(self):
    if self.kind not in TURN_KINDS:
      raise ValueError(
          f'Unknown kind of turn {self.kind!r}; known: {", ".join(TURN_KINDS)}.'
      )
    if not self.learn and self.reward:
      raise ValueError(
          f'A turn that is not learnt from has no reward, got {self.reward}.'
      )


def acts(turns: Iterable[Turn]) -> tuple[Turn, ...]:
  """The turns that were for the environment: those the horizon counts."""
  return tuple(turn for turn in turns if turn.kind == ACT)


@dataclasses.dataclass(frozen=True)
class Segment:
  """An append-only part of an episode's transcript, with a context of its own."""

  tokens: tuple[int, ...]
  completion_mask: tuple[bool, ...]
  sampler_logprobs: tuple[float, ...]


@dataclasses.dataclass(frozen=True)
class Episode:
  """One run from reset to its end, and its record.

  `tokens`, `completion_mask` and `sampler_logprobs` have one length. The mask
  is True exactly on ids that the sampler returned; each turn's ids are one
  maximal run of True, in turn order. Log-probabilities elsewhere are 0. All
  three are empty where a policy was played over messages: what no sampler of
  ours has tokenized has no ids.

  They are the episode's segments one after the other. Each begins with context
  (mask False), text of earlier segments included: a sampled id has mask True in
  the one segment in which it was sampled.
  """

  episode_id: str
  env: str
  task_id: int
  split: str
  seed: int
  policy_version: int
  horizon: int
  stop_reason: str
  success: bool
  prompt: tuple[Message, ...]  # the messages before the first completion
  turns: tuple[Turn, ...]
  tokens: tuple[int, ...]
  completion_mask: tuple[bool, ...]
  sampler_logprobs: tuple[float, ...]
  error: str | None = None  # the failure's own words, for FAILURES
  sample: int = 0  # which of the episodes that one task gets
  attempt: int = 0  # how many attempts at the task this one could learn from
  data_version: int = 1  # which meaning the environment's task ids had
  segment_starts: tuple[int, ...] = (0,)  # index of each segment's first token
  # PNG files of the environment: at the reset, and after each turn. Kept beside
  # the record, not in it.
  views: tuple[bytes, ...] = dataclasses.field(default=(), repr=False)
  # False: a second try would fail alike. Not in the record either.
  retryable: bool = dataclasses.field(default=True, repr=False, compare=False)

  def __post_init__(self):
    if self.stop_reason not in STOP_REASONS:
      raise ValueError(
          f'Unknown stop_reason {self.stop_reason!r}; known:'
          f' {", ".join(STOP_REASONS)}.'
      )
    lengths = {
        len(self.tokens),
        len(self.completion_mask),
        len(self.sampler_logprobs),
    }
    if len(lengths) != 1:
      raise ValueError(
          f'Episode {self.episode_id!r}: tokens, mask and log-probabilities'
          f' differ in length: {sorted(lengths)}.'
      )
    starts = self.segment_starts
    if (
        starts[:1] != (0,)
        or any(b <= a for a, b in itertools.pairwise(starts))
        or any(
            start >= len(self.tokens) or self.completion_mask[start]
            for start in starts[1:]
        )
    ):
      raise ValueError(
          f'Episode {self.episode_id!r}: segments start in ascending order, the'
          ' first at 0, each with a token that was not sampled; got'
          f' {list(starts[:8])} in {len(self.tokens)} tokens.'
      )

  @property
  def terminated(self) -> bool:
    return self.stop_reason == TERMINATED

  @property
  def truncated(self) -> bool:
    return self.stop_reason in TRUNCATIONS

  @property
  def valid(self) -> bool:
    """False after a failure of the infrastructure: counted, not learnt from.

    So is an episode whose context had no room for an action.
    """
    return self.stop_reason not in FAILURES and any(
        turn.kind == ACT for turn in self.turns
    )

  @property
  def acts(self) -> tuple[Turn, ...]:
    """The turns that were for the environment: those the horizon counts."""
    return acts(self.turns)

  @property
  def segment_spans(self) -> list[tuple[int, int]]:
    """`(start, stop)` of each segment."""
    return list(itertools.pairwise((*self.segment_starts, len(self.tokens))))

  @property
  def segments(self) -> tuple[Segment, ...]:
    """The parts of the transcript, in order."""
    return tuple(
        Segment(
            self.tokens[start:stop],
            self.completion_mask[start:stop],
            self.sampler_logprobs[start:stop],
        )
        for start, stop in self.segment_spans
    )

  @property
  def sampled_runs(self) -> list[tuple[int, int]]:
    """`(start, stop)` of each maximal run of sampled tokens."""
    runs, start = [], 0
    for sampled, run in itertools.groupby(self.completion_mask):
      stop = start + sum(1 for _ in run)
      if sampled:
        runs.append((start, stop))
      start = stop
    return runs

  @property
  def episode_return(self) -> float:
    """Undiscounted sum of the turns' rewards, rounded once."""
    return math.fsum(turn.reward for turn in self.turns)

  @property
  def progress(self) -> float | None:
    """Share of the task that was done at the end; None: never reported."""
    reports = [
        turn.progress for turn in self.turns if turn.progress is not None
    ]
    return reports[-1] if reports else None


@dataclasses.dataclass(frozen=True)
class Group:
  """Episodes of one task under one policy version.

  All first attempts come first, in replica order, then all second ones.
  """

  task_id: int
  ordinal: int  # position of the task in the run's task order
  episodes: tuple[Episode, ...]
