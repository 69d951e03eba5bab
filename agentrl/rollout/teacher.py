"""A teacher's log-probabilities of the tokens that a student sampled."""

import asyncio
from collections.abc import Callable, Sequence

import numpy as np

from agentrl.errors import ConfigError
from agentrl.inference.sampler import Sampler
from agentrl.types import Episode, Message

# Words, digits, spaces, scripts and symbols that tokenizers cut in ways of
# their own.
PROBE = (
    "Craft 12 oak planks using 3 logs, isn't it?\n\n\tgo to  [407] "
    'naïve Zürich Москва 東京 🙂 {"a": 1.50} http://shop/a_b'
)


class Teacher:
  """A policy that scores the episodes of another.

  Args:
    sampler: of the teacher's servers.
    concurrency: episodes that it scores at a time.
    hint: words that it reads before the first observation, and the student does
      not.
    prompt_ids: of the messages of a prompt; only with a hint.
  """

  def __init__(
      self,
      sampler: Sampler,
      *,
      concurrency: int,
      hint: str = '',
      prompt_ids: Callable[[Sequence[Message]], list[int]] | None = None,
  ):
    self._sampler = sampler
    self._hint, self._prompt_ids = hint, prompt_ids
    self._limit = asyncio.Semaphore(concurrency)

  async def check(self, encode: Callable[[str], Sequence[int]]) -> None:
    """Refuses servers whose tokenizer is not the student's.

    Args:
      encode: ids of a text by the student's.

    Raises:
      ConfigError: theirs gives others, or they answer without one.
      EngineError: they do not answer.
    """
    theirs = await self._sampler.tokenize(PROBE)
    ours = list(encode(PROBE))
    # Some begin with a token that the text has not.
    if theirs not in (ours, ours[1:]) and theirs[1:] != ours:
      raise ConfigError(
          f'The teacher at {self._sampler.urls[0]} has another tokenizer than'
          f' the policy: it makes {len(theirs)} ids of a text where the policy'
          f' has {len(ours)}. Its log-probabilities would be of other words;'
          ' take a teacher of the same family.'
      )

  async def score(self, episodes: Sequence[Episode], width: int) -> np.ndarray:
    """`[E, width]` log-probabilities of sampled tokens; 0 elsewhere.

    Args:
      episodes: with tokens.
      width: at least the tokens of the longest.

    Raises:
      EngineError: the teacher failed at one of them.
    """
    out = np.zeros((len(episodes), width), np.float32)
    try:
      async with asyncio.TaskGroup() as group:
        for row, episode in zip(out, episodes, strict=True):
          for start, stop in episode.segment_spans:
            group.create_task(self._fill(row, episode, start, stop))
    except BaseExceptionGroup as group_of:
      # The first failure cancelled the others; it is what matters.
      raise group_of.exceptions[0] from None
    return out

  async def _fill(
      self, row: np.ndarray, episode: Episode, start: int, stop: int
  ) -> None:
    """Scores the sampled tokens of a segment."""
    sampled = np.flatnonzero(episode.completion_mask[start:stop])
    if not len(sampled):
      return
    first, last = int(sampled[0]), int(sampled[-1])
    tokens = list(episode.tokens[start : start + last + 1])
    more = 0
    if self._hint:
      tokens, more = self._hinted(tokens, episode)
    async with self._limit:
      logprobs = await self._sampler.score(
          tokens,
          start=first + more,
          rid=f'teacher-{episode.episode_id}-{start}',
      )
    row[start + sampled] = np.asarray(logprobs)[sampled - first]

  def _hinted(
      self, tokens: Sequence[int], episode: Episode
  ) -> tuple[list[int], int]:
    """The tokens with the hint in their prompt, and how many more they are."""
    assert self._prompt_ids is not None
    plain = self._prompt_ids(episode.prompt)
    assert list(tokens[: len(plain)]) == plain  # a full context has one segment
    head, *rest = episode.prompt
    hinted = Message(head.role, f'{self._hint}\n\n{head.content}')
    if len(rest):  # instructions come first
      hinted = Message(head.role, f'{head.content}\n\n{self._hint}')
    prompt = self._prompt_ids((hinted, *rest))
    return prompt + list(tokens[len(plain) :]), len(prompt) - len(plain)
