"""The oracle: it knows the chain of a question, but must find every fact.

It searches hop by hop and answers with the words of the passages that came
back. A hop whose passage is not among the results gets its next query, until
all are used up.
"""

import dataclasses
from collections.abc import Sequence

from agentrl.envs.searchqa.records import Hop, Passage, Question
from agentrl.envs.searchqa.scoring import fold, normalise
from agentrl.errors import EnvError


@dataclasses.dataclass(frozen=True)
class Search:
  """One search of an episode and what it found."""

  query: str
  passages: tuple[Passage, ...]


def next_action(question: Question, searches: Sequence[Search]) -> str:
  """The next action after `searches`.

  Raises:
    EnvError: the chain is not known, or a hop has no query left.
  """
  if not question.hops:
    raise EnvError(
        f'The expert knows no way to answer {question.name!r}; it can only play'
        ' the generated questions.'
    )
  tried = {search.query for search in searches}
  passages = [passage for search in searches for passage in search.passages]
  evidence = None
  for number, hop in enumerate(question.hops, 1):
    evidence = next((x for x in passages if states(x, hop)), None)
    if evidence is None:
      for query in hop.queries:
        if query not in tried:
          return f'<search>{query}</search>'
      raise EnvError(
          f'The expert did not find hop {number} of {question.text!r}: none of'
          f' its searches showed {hop.titles[0]!r} with {hop.needle!r}.'
      )
  assert evidence is not None  # of the last hop
  return f'<answer>{_answer(question, evidence)}</answer>'


def states(passage: Passage, hop: Hop) -> bool:
  """True if `passage` states the fact of `hop`."""
  text = fold(f'{passage.title} {passage.text}')
  return passage.title in hop.titles and fold(hop.needle) in text


def _answer(question: Question, evidence: Passage) -> str:
  """The first of the right answers that the evidence says.

  Raises:
    EnvError: it says none.
  """
  text = f' {normalise(fold(f"{evidence.title} {evidence.text}"))} '
  for answer in question.answers:
    if f' {normalise(fold(answer))} ' in text:
      return answer
  raise EnvError(
      f'No answer to {question.text!r} occurs in the passage'
      f' {evidence.title!r}.'
  )
