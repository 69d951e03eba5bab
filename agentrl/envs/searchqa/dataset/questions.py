"""Questions of one to three hops, made by chaining facts.

A question starts from a subject and follows relations: the capital of / the
country where / the element radium was discovered. Every hop has one right
answer, no answer occurs in the question, and no chain returns to where it was.

Splits are drawn by family: whatever a question starts from (a country, its
capital, its domain, an element, a city) belongs to one split. So no two splits
share a start and a chain of relations, and not even a start.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence

from agentrl.envs.searchqa.dataset.facts import Fact
from agentrl.envs.searchqa.records import MAX_HOPS, SPLITS, Hop, Question
from agentrl.envs.searchqa.scoring import fold, normalise

# Questions of each number of hops that may start in one family.
_PER_FAMILY = {'country': (12, 9, 8), 'element': (5, 4, 4), 'city': (1, 1, 2)}
_ONE_CITY_OF = 6  # of the cities that a question could start from

# Their answers are a few countries, mostly: one chain of so many is kept.
_ALIKE = ('export market', 'import source')
_ONE_ALIKE_OF = 6


# A relation, how it names its answer inside a longer question if one may follow,
# and below it the questions that ask for it.
_RELATIONS = """
capital
  What is the capital of {}?
  Which city is the capital of {}?
  Name the capital of {}.
internet domain
  What is the internet country code of {}?
  Which top-level internet domain belongs to {}?
calling code
  What is the telephone calling code of {}?
  Which international dialling code reaches {}?
currency code
  What is the three-letter code of the currency of {}?
  Which currency code is used for the money of {}?
aircraft prefix
  Which registration prefix do civil aircraft of {} carry?
  What is the civil aircraft registration prefix of {}?
highest point
  What is the highest point of {}?
  Name the highest elevation in {}.
anthem
  What is the title of the national anthem of {}?
  Which song is the national anthem of {}?
legislature
  What is the legislature of {} called in the local language?
  Give the local name of the legislature of {}.
language
  What is the official language of {}?
  Which language is official in {}?
area
  What is the total area of {} in square kilometres?
  How many square kilometres does {} cover in total?
year of independence
  In which year did {} become independent?
  What was the year of independence of {}?
former ruler: the country from which {} became independent
  From which country did {} gain its independence?
  Which country ruled {} until its independence?
longest border: the neighbour with the longest land border with {}
  Which country shares the longest land border with {}?
  With which neighbour does {} have its longest land border?
only neighbour: the only country that borders {}
  Which is the only country that borders {}?
  Which country is the sole land neighbour of {}?
export market: the biggest export partner of {}
  Which country is the biggest export partner of {}?
  Which country takes the largest share of the exports of {}?
import source: the biggest import partner of {}
  Which country is the biggest import partner of {}?
  Which country supplies the largest share of the imports of {}?
symbol
  What is the chemical symbol of {}?
  Which symbol stands for {}?
atomic number
  What is the atomic number of {}?
  Which atomic number does {} have?
year of discovery
  In which year was {} discovered?
  What was the year of the discovery of {}?
discoverer
  Who discovered {}?
  Who is credited with the discovery of {}?
place of discovery: the country where {} was discovered
  In which country was {} discovered?
  Which country saw the discovery of {}?
country of city: the country where the city of {} lies
  In which country is the city of {}?
  To which country does the city of {} belong?
country of domain: the country with the internet code {}
  Which country uses the internet code {}?
  To which country does the internet domain {} belong?
country of calling code: the country with the calling code {}
  Which country has the telephone calling code {}?
  Which country does one call with the code {}?
country of aircraft prefix: the country whose civil aircraft carry the prefix {}
  Civil aircraft of which country carry the prefix {}?
  Which country registers its civil aircraft under {}?
country of highest point: the country whose highest point is {}
  Of which country is {} the highest point?
  Which country has {} as its highest point?
country of capital: the country whose capital is {}
  Of which country is {} the capital?
  Which country is governed from its capital {}?
country of anthem: the country whose national anthem is "{}"
  Which country has the national anthem "{}"?
  Of which country is "{}" the national anthem?
country of former name: the country once called {}
  Which country was once called {}?
  What is the present name of the country formerly known as {}?
element of symbol: the element with the symbol {}
  Which element has the symbol {}?
  What is the name of the chemical element {}?
element of number: the element with the atomic number {}
  Which element has the atomic number {}?
  What is the name of the element number {}?
element of discoverer: the element discovered by {}
  Which element was discovered by {}?
  Which element did {} discover?
"""


def _relation(text: str) -> tuple[str, tuple[str, list[str]]]:
  head, *questions = text.split('\n  ')
  name, _, phrase = head.partition(': ')
  return name, (phrase, questions)


RELATIONS = dict(map(_relation, re.split(r'\n(?=\S)', _RELATIONS.strip())))


def generate(facts: Sequence[Fact]) -> list[Question]:
  """Every question, by split, number of hops and name: the order of ids."""
  of_subject: dict[str, list[Fact]] = {}
  for fact in facts:
    of_subject.setdefault(fact.subject, []).append(fact)
  by_family: dict[str, list[tuple[Fact, ...]]] = {}
  for fact in facts:
    kind = fact.family.split()[0]
    if kind != 'city' or _number(fact.family) % _ONE_CITY_OF == 0:
      chains = by_family.setdefault(fact.family, [])
      chains.extend(_chains((fact,), of_subject))
  questions = []
  for family, chains in by_family.items():
    most = _PER_FAMILY[family.split()[0]]
    drawn = [0] * MAX_HOPS
    # A draw without a generator: the order of digests.
    named = {_name(chain): chain for chain in chains}
    for name in sorted(named, key=_number):
      chain = named[name]
      more = len(chain) - 1  # hops after the first
      if drawn[more] < most[more] and _kept(name, chain) and _fair(name, chain):
        drawn[more] += 1
        questions.append(_question(name, chain, family))
  return sorted(
      questions, key=lambda x: (SPLITS.index(x.split), len(x.hops), x.name)
  )


def _chains(
    begun: tuple[Fact, ...], of_subject: dict[str, list[Fact]]
) -> Iterator[tuple[Fact, ...]]:
  """`begun` and all that follows from it."""
  yield begun
  if len(begun) < MAX_HOPS:
    visited = {fact.object for fact in begun} | {begun[0].subject}
    for fact in of_subject.get(begun[-1].object, ()):
      if fact.object not in visited - {''}:
        yield from _chains((*begun, fact), of_subject)


def _kept(name: str, chain: tuple[Fact, ...]) -> bool:
  alike = any(fact.relation in _ALIKE for fact in chain)
  return not alike or _number(f'alike {name}') % _ONE_ALIKE_OF == 0


def _fair(name: str, chain: tuple[Fact, ...]) -> bool:
  """True if no answer of any hop occurs in the question."""
  text = f' {normalise(fold(_text(name, chain)))} '
  return not any(
      f' {normalise(fold(answer))} ' in text
      for fact in chain
      for answer in fact.answers
  )


def _name(chain: tuple[Fact, ...]) -> str:
  return ' / '.join([chain[0].subject, *(fact.relation for fact in chain)])


def _question(name: str, chain: tuple[Fact, ...], family: str) -> Question:
  return Question(
      name=name,
      split=_split(family),
      text=_text(name, chain),
      answers=chain[-1].answers,
      hops=tuple(Hop(x.titles, x.needle, x.queries) for x in chain),
      family=family,
  )


def _text(name: str, chain: tuple[Fact, ...]) -> str:
  named = chain[0].named
  for fact in chain[:-1]:
    named = RELATIONS[fact.relation][0].format(named)
  wordings = RELATIONS[chain[-1].relation][1]
  return wordings[_number(name) % len(wordings)].format(named)


def _split(family: str) -> str:
  """A tenth of the families is test, a twentieth dev."""
  share = _number(family) % 1000
  return 'test' if share < 100 else 'dev' if share < 150 else 'train'


def _number(text: str) -> int:
  """A number that looks random and is the same everywhere."""
  return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6])
