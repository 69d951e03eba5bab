"""The token ids of an episode, in append-only segments."""

from collections.abc import Sequence

from agentrl.types import Completion


class Transcript:
  """Token ids of one episode; nothing that is in it ever changes.

  So within a segment the prompt of turn t + 1 starts with the prompt of turn t
  and its sampled ids by construction, and the three lists have one length by
  construction.
  """

  def __init__(self):
    self._starts: list[int] = []
    self._tokens: list[int] = []
    self._mask: list[bool] = []
    self._logprobs: list[float] = []

  def __len__(self) -> int:
    return len(self._tokens)

  def begin(self, ids: Sequence[int]) -> None:
    """Begins a segment with inserted ids, at least one."""
    self._starts.append(len(self._tokens))
    self.append_inserted(ids)

  def append_sampled(self, completion: Completion) -> None:
    """Appends ids that the sampler returned: mask True."""
    # Two completions without an id between them would look like one turn.
    assert not self._mask or not self._mask[-1]
    self._tokens += completion.tokens
    self._mask += [True] * len(completion.tokens)
    self._logprobs += completion.logprobs

  def append_inserted(self, ids: Sequence[int]) -> None:
    """Appends inserted ids: mask False, log-probability 0."""
    self._tokens += ids
    self._mask += [False] * len(ids)
    self._logprobs += [0.0] * len(ids)

  @property
  def segment_starts(self) -> tuple[int, ...]:
    """Index of the first token of each segment."""
    return tuple(self._starts) or (0,)

  @property
  def segment(self) -> tuple[int, ...]:
    """Ids of the present segment: what the policy sees."""
    return tuple(self._tokens[self.segment_starts[-1] :])

  @property
  def tokens(self) -> tuple[int, ...]:
    return tuple(self._tokens)

  @property
  def completion_mask(self) -> tuple[bool, ...]:
    return tuple(self._mask)

  @property
  def sampler_logprobs(self) -> tuple[float, ...]:
    return tuple(self._logprobs)
