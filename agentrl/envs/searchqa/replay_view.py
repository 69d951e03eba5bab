"""SearchQA: question, queries, and the last passages with hits marked."""

import re

from agentrl.envs import blocks
from agentrl.envs.blocks import Block, Moment

_QUESTION = re.compile(r'^Question: (.+)$', re.MULTILINE)
_ACTION = re.compile(r'<(search|answer)>(.*?)</\1>', re.DOTALL)
_DOC = re.compile(
    r'Doc \d+\(Title: (.*?)\) (.*?)(?=\nDoc \d+\(Title: |</information>|$)',
    re.DOTALL,
)
_WORD = re.compile(r"\w[\w'-]*")
_SHORT = 3  # letters: words below it are in every passage
_REFUSED = 'Your action has no effect.'


def view(moment: Moment) -> list[Block]:
  """Shows which words of the query, and of the answer, the passages have."""
  question = _QUESTION.search(moment.opening)
  actions = []  # (kind, words, observation)
  for turn in moment.past:
    match = _ACTION.search(turn.action)
    if match:
      actions.append((match[1], match[2].strip(), turn.observation))
  searches = [x for x in actions if x[0] == 'search']
  answers = [x for x in actions if x[0] == 'answer']
  parts = [
      blocks.facts(
          'Question',
          question=question and question[1],
          answer=answers[-1][1] if answers else None,
          verdict=answers[-1][2] if answers else None,
      ),
      blocks.items(
          'Queries',
          (
              blocks.item(words, blocks.NOW if x is actions[-1] else None)
              for x in searches
              for words in [x[1]]
          ),
          'none yet',
      ),
  ]
  if searches:
    _, query, observation = searches[-1]
    words = {w.lower() for w in _WORD.findall(query) if len(w) >= _SHORT}
    answer = answers[-1][1] if answers else ''
    parts.append(
        blocks.passages(
            'Passages of the last search',
            query,
            (
                blocks.passage(title, text, _hits(text, words, answer))
                for title, text in _DOC.findall(observation)
            ),
        )
    )
  return parts


def refuses(observation: str) -> bool:
  """True if the command before an observation could not be done."""
  return observation.startswith(_REFUSED)


def _hits(text: str, words: set[str], answer: str) -> list[tuple[int, int]]:
  """Spans of the words, and of the answer as a whole; they do not overlap."""
  spans = []
  if answer:
    spans = [m.span() for m in re.finditer(re.escape(answer), text, re.I)]
  for match in _WORD.finditer(text):
    start, stop = match.span()
    inside = any(a < stop and start < b for a, b in spans)
    if match[0].lower() in words and not inside:
      spans.append((start, stop))
  return sorted(spans)
