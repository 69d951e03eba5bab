"""SearchQA: one episode of searching and answering.

The tags, the form of the results and the scoring are those of AgentGym's
SearchQA, whose policies read them. By default a wrong answer ends the episode:
the original lets the policy guess until its turns are used up.
"""

import functools
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from agentrl.envs import base
from agentrl.envs.searchqa import (
    dataset,
    expert,
    index,
    question_files,
    scoring as scoring_lib,
    tasks,
)
from agentrl.envs.searchqa.records import Passage, Question
from agentrl.envs.searchqa.retriever import Retriever
from agentrl.errors import ConfigError, EnvError
from agentrl.types import StepResult

_ACTION = re.compile(r'<(search|answer)>(.*?)</\1>', re.DOTALL)
_MAX_TOPK = 100
TIMEOUT_S = 30.0  # of a search elsewhere

HINT = (
    'Your action has no effect. Search with <search>words to look for</search>'
    ' or give your answer as <answer>the answer</answer>.'
)
_RIGHT = 'Your answer is right.'
_WRONG = 'Your answer is wrong.'
_RETRY = f'{_WRONG} Search further or give another answer.'
_NOTHING = 'Nothing was found.'


class Searcher(Protocol):
  """A search engine; called from several threads at once."""

  def search(self, query: str, topk: int) -> list[Passage]:
    """At most `topk` passages, the best first."""


def open_factory(
    *,
    questions: str | Mapping[str, str] | None = None,
    max_hops: int | None = None,
    relations: Sequence[str] | None = None,
    retriever_url: str | None = None,
    retriever_timeout_s: float = TIMEOUT_S,
    topk: int = 3,
    scoring: str = 'em',
    retry: bool = False,
) -> base.Independent:
  """The factory of `SearchQA`: they share the index and the questions.

  Args:
    questions: a file of questions, or one for each split, in place of the
      generated ones (see question_files.py).
    max_hops: refuses generated questions of more hops; None allows all.
    relations: refuses generated questions that follow other relations (see
      dataset/questions.py), such as ('country of city',); None allows all.
    retriever_url: a service to search with in place of the embedded index.
    retriever_timeout_s: limit of one search there.
    topk: passages that a search shows.
    scoring: 'em' (reward 1 for a right answer) or 'f1' (its words' F1).
    retry: whether a wrong answer may be followed by another, as originally.

  Raises:
    ConfigError: an option is wrong.
    DataError: a file of questions cannot be used.
    EnvError: a package is missing.
  """
  tasks.check_max_hops(max_hops, questions)
  tasks.check_relations(relations, questions)
  _check_scoring(topk, scoring, retry)
  if retriever_url is not None:
    searcher: Searcher = Retriever(retriever_url, timeout_s=retriever_timeout_s)
  elif retriever_timeout_s != TIMEOUT_S:
    raise ConfigError(
        'retriever_timeout_s has no effect without retriever_url.'
    )
  else:
    searcher = index.load()
  make = functools.partial(
      SearchQA,
      dataset.load_questions()
      if questions is None
      else question_files.read(questions),
      searcher,
      max_hops=max_hops,
      relations=None if relations is None else frozenset(relations),
      topk=topk,
      scoring=scoring,
      retry=retry,
  )
  # tantivy searches without the interpreter lock, but briefly: more threads
  # would contend for it around the searches. A service is waited for.
  threads = 2 if retriever_url is None else 32
  return base.Independent(make, threads=threads, inline=('reset',))


def _check_scoring(topk: int, scoring: str, retry: bool) -> None:
  if type(topk) is not int or not 1 <= topk <= _MAX_TOPK:
    raise ConfigError(f'topk must be 1 to {_MAX_TOPK}, got {topk!r}.')
  if scoring not in scoring_lib.SCORINGS:
    raise ConfigError(
        f'Unknown scoring {scoring!r}; known:'
        f' {", ".join(scoring_lib.SCORINGS)}.'
    )
  if not isinstance(retry, bool):
    raise ConfigError(f'retry must be True or False, got {retry!r}.')
  if retry and scoring == 'f1':
    raise ConfigError(
        "scoring='f1' has no effect with retry=True, where only the right"
        " answer ends the episode; use scoring='em'."
    )


class SearchQA:
  """Answer a question by searching for passages.

  Args:
    questions: by task id.
    searcher: finds passages.
    max_hops: refuses questions of more hops; None allows all.
    topk: passages that a search shows.
    scoring: 'em' or 'f1'.
    retry: whether a wrong answer may be followed by another.
  """

  def __init__(
      self,
      questions: Sequence[Question],
      searcher: Searcher,
      *,
      max_hops: int | None,
      relations: Collection[str] | None,
      topk: int,
      scoring: str,
      retry: bool,
  ):
    self._questions, self._searcher = questions, searcher
    self._max_hops, self._relations = max_hops, relations
    self._topk, self._scoring, self._retry = topk, scoring, retry
    self._question: Question | None = None
    self._searches: list[expert.Search] = []

  def reset(self, task_id: int, seed: int) -> str:
    del seed  # a question leaves nothing to chance
    base.check_task('SearchQA', task_id, len(self._questions))
    if self._max_hops is not None:
      hops = tasks.hops_of(task_id)
      if hops > self._max_hops:
        raise EnvError(
            f'SearchQA task {task_id} has {hops} hops, above'
            f' max_hops={self._max_hops}; raise max_hops or choose another.'
        )
    question = self._questions[task_id]
    if self._relations is not None:
      others = {*tasks.relations_of(question)} - {*self._relations}
      if others:
        raise EnvError(
            f'SearchQA task {task_id} follows {", ".join(sorted(others))},'
            ' which relations leaves out; add it there or choose another.'
        )
    self._question = question
    self._searches = []
    return f'Question: {question.text}'

  def step(self, action: str) -> StepResult:
    match = _ACTION.search(action)
    words = match[2].strip() if match else ''
    if match is None or not words:
      return StepResult(HINT, 0.0, False, success=False)
    if match[1] == 'search':
      return StepResult(self._search(words), 0.0, False, success=False)
    return self._answer(words)

  def available_actions(self) -> list[str]:
    return ['<search>{words}</search>', '<answer>{answer}</answer>']

  def expert_action(self) -> str:
    assert self._question is not None  # an episode has begun
    return expert.next_action(self._question, self._searches)

  def close(self) -> None:
    self._searches = []

  def _search(self, query: str) -> str:
    passages = self._searcher.search(query, self._topk)
    self._searches.append(expert.Search(query, tuple(passages)))
    shown = '\n'.join(
        f'Doc {number}(Title: {passage.title}) {passage.text}'
        for number, passage in enumerate(passages, 1)
    )
    return f'<information>{shown or _NOTHING}</information>'

  def _answer(self, answer: str) -> StepResult:
    assert self._question is not None  # an episode has begun
    golds = self._question.answers
    right = scoring_lib.exact_match(answer, golds)
    if self._retry and not right:
      return StepResult(_RETRY, 0.0, False, success=False)
    partial = self._scoring == 'f1'
    return StepResult(
        observation=_RIGHT if right else _WRONG,
        reward=scoring_lib.f1(answer, golds) if partial else float(right),
        terminated=True,
        success=right,
    )
