"""Facts with one right answer, read from the sources' structured fields.

A fact leads from a subject to an answer by a relation. Where the answer is
itself a subject (a country, an element), facts can be chained to questions.
A field that is not plainly of the expected form gives no fact.
"""

import collections
import dataclasses
import functools
import re
from collections.abc import Iterator

from agentrl.envs.searchqa.dataset import corpus
from agentrl.envs.searchqa.dataset.sources import Country, Sources, plain
from agentrl.envs.searchqa.scoring import fold, normalise

_MIN_CITY = 150_000  # people of a city that a question may start from
_DOUBTED = ('Neodymium',)  # mendeleev has a wrong year of discovery

# No search tells these apart from the many passages that mention such words.
_TOO_COMMON = ('.at', '.in', 'Europe', 'French Sudan')

_BRITISH = {
    'Aluminum': ('Aluminium',),
    'Cesium': ('Caesium',),
    'Sulfur': ('Sulphur',),
}

# mendeleev's spellings of discoverers, and the usual ones.
_SPELLINGS = {
    'Sir Humphrey Davy': 'Humphry Davy',
    'Fredrich Stromeyer': 'Friedrich Stromeyer',
    'Fredrich Ernst Dorn': 'Friedrich Ernst Dorn',
    'Marguerite Derey': 'Marguerite Perey',
    'Charles Hatchet': 'Charles Hatchett',
    'Smithson Tenant': 'Smithson Tennant',
    'George Brandt': 'Georg Brandt',
    'C.F. Aver von Welsbach': 'Carl Auer von Welsbach',
    'Lars Nilson': 'Lars Fredrik Nilson',
    'Karl Klaus': 'Karl Ernst Claus',
}

_LATIN = re.compile('[A-Za-z]')
_DATE = r'(?:\d{1,2} [A-Z][a-z]+ )?'


@dataclasses.dataclass(frozen=True)
class Fact:
  """One step of a question.

  Attributes:
    relation: a name in `questions.RELATIONS`.
    subject: what it is about: 'country fr', 'element Ra', '.fr'.
    named: the subject as a question names it.
    family: what the subject belongs to; splits never share a family.
    answers: right answers; the first is the usual one.
    object: the subject that the answer is, or '' where no facts are about it.
    titles: passages that state the fact.
    needle: words of those passages that say the answer.
    queries: searches that should find one of them, the best first.
  """

  relation: str
  subject: str
  named: str
  family: str
  answers: tuple[str, ...]
  titles: tuple[str, ...]
  needle: str
  queries: tuple[str, ...]
  object: str = ''


def facts(sources: Sources) -> list[Fact]:
  """Every fact, in a fixed order; each subject and relation has one."""
  forward_facts = [
      *_of_countries(sources),
      *_of_elements(sources),
      *_of_cities(sources),
  ]
  return forward_facts + _unique(_backwards(forward_facts, sources))


def _of_countries(sources: Sources) -> Iterator[Fact]:
  for country in sources.countries.values():
    if country.sovereign:
      yield from _of_country(country, sources)


def _of_country(country: Country, sources: Sources) -> Iterator[Fact]:
  name = country.name
  for relation, field, needle, answers, other in _read(country, sources):
    titles = [corpus.field_title(country, field)]
    queries = [f'{name} {field}']
    if relation in ('capital', 'internet domain'):
      titles.append(name)
      queries.append(f'{name} {relation}')
    for section, fields in country.fields.items():
      if isinstance(below := fields.get(field), dict):
        labels = ' '.join(below)
        full = ' '.join(country.names[:2])
        queries.append(f'{full} {section} {field} {labels}')
    yield Fact(
        relation=relation,
        subject=f'country {country.code}',
        named=country.in_text,
        family=f'country {country.code}',
        answers=_country_names(other) if other else answers,
        titles=tuple(titles),
        needle=needle,
        queries=tuple(queries),
        object=f'country {other.code}' if other else '',
    )


_Read = tuple[str, str, str, tuple[str, ...], Country | None]


def _read(country: Country, sources: Sources) -> Iterator[_Read]:
  """`(relation, field, needle, answers, other country)` of one country."""
  yield from _capital_and_codes(country)
  yield from _culture_and_land(country)
  yield from _other_countries(country, sources)


def _capital_and_codes(country: Country) -> Iterator[_Read]:
  text, geo = country.text, country.geo

  capital = re.fullmatch(
      r'([^;(,]+?)(?: \(([^()]+)\))?', text('Government', 'Capital', 'name')
  )
  if capital and normalise(fold(capital[1])) == normalise(fold(geo['capital'])):
    # As in (Baki, Baky) or (Kiev is the ...), not as in (on Viti Levu).
    others = re.split(', |/', re.sub(' is .*', '', capital[2] or ''))
    others = [x for x in others if x[:1].isupper()]
    # GeoNames may have it without the accents that the Factbook prints.
    names = _names(capital[1], geo['capital'], *others)
    yield 'capital', 'Capital', capital[1], names, None

  if re.fullmatch(r'\.[a-z]{2}', domain := geo['tld']):
    if text('Communications', 'Internet country code') == domain:
      field = 'Internet country code'
      yield 'internet domain', field, domain, (domain,), None

  code = corpus.calling_code(geo)
  if re.fullmatch(r'\+\d+', code):
    yield 'calling code', corpus.CALLING, code, (code, f'00{code[1:]}'), None

  rate = text('Economy', 'Exchange rates', 'Currency')
  money = re.fullmatch(r'(.+) \(([A-Z]{3})\) per US dollar -?', rate)
  if money and money[2] == geo['currencycode']:
    yield 'currency code', 'Exchange rates', money[2], (money[2],), None

  prefix = text(
      'Transportation', 'Civil aircraft registration country code prefix'
  )
  if re.fullmatch(r'[A-Z0-9]{1,3}', prefix):
    field = 'Civil aircraft registration country code prefix'
    yield 'aircraft prefix', field, prefix, (prefix,), None


def _culture_and_land(country: Country) -> Iterator[_Read]:
  text = country.text
  peak = re.fullmatch(
      r'([A-Z][^\d;(,]+?)(?: \(([A-Z][^)\d"]+)\))? ([\d,]+) m',
      text('Geography', 'Elevation', 'highest point'),
  )
  if peak:
    place = peak[1].split(' on ')[0].split(' in ')[0]
    names = _names(place, peak[1], *([peak[2]] if peak[2] else []))
    yield 'highest point', 'Elevation', peak[1], names, None

  title = text('Government', 'National anthem(s)', 'title')
  anthem = re.fullmatch(r'"([^"]+)"(?: \(([^()]+)\))?', title)
  if anthem and country.name not in anthem[1]:
    meaning = (anthem[2] or '').strip('“”')
    told = meaning and 'National Anthem' not in meaning
    names = _names(anthem[1], *([meaning] if told else []))
    yield 'anthem', 'National anthem(s)', anthem[1], names, None

  body = text('Government', 'Legislative branch', 'legislature name')
  own = re.fullmatch(r"[\w' ]+ \(([^();]+)\)", body)
  if own and not re.search('Assembl|Parliament|Congres|Senat| - ', own[1]):
    yield 'legislature', 'Legislative branch', own[1], _names(own[1]), None

  spoken = text('People and Society', 'Languages', 'Languages')
  spoken = spoken or text('People and Society', 'Languages')
  language = re.match(r'([A-Z][a-z]+) (?:[\d.]+% )?\(official\)', spoken)
  if language and spoken.count('official') == 1:
    yield 'language', 'Languages', language[1], (language[1],), None

  area = re.fullmatch(r'([\d,]+) sq km', text('Geography', 'Area', 'total'))
  if area:
    units = ('sq km', 'square kilometres', 'square kilometers', 'km2')
    names = (area[1], *(f'{area[1]} {unit}' for unit in units))
    yield 'area', 'Area', area[0], names, None


def _other_countries(country: Country, sources: Sources) -> Iterator[_Read]:
  text = country.text
  independence = re.fullmatch(
      _DATE + r'(\d{4}) \(from (?:the )?([A-Z][\w .]*)\)',
      text('Government', 'Independence'),
  )
  if independence:
    year, ruler = independence.groups()
    field = 'Independence'
    yield 'year of independence', field, year, (year,), None
    if former := sources.named(ruler):
      yield 'former ruler', field, ruler, (), former

  land = country.fields.get('Geography', {}).get('Land boundaries', {})
  parts = text('Geography', 'Land boundaries', 'border countries').split('; ')
  matches = (
      re.fullmatch(r'([A-Z][^\d;()]+?) ([\d,.]+) km', part) for part in parts
  )
  borders = [match for match in matches if match]
  # France and Cyprus have borders elsewhere, which the list leaves out.
  whole = len(borders) == len(parts)
  if whole and set(land) <= {'total', 'border countries', 'note'}:
    lengths = [(float(x[2].replace(',', '')), x[1]) for x in borders]
    relation = 'only neighbour' if len(lengths) == 1 else 'longest border'
    if other := _first(lengths, sources):
      yield relation, 'Land boundaries', *other

  for relation, field in (
      ('export market', 'Exports - partners'),
      ('import source', 'Imports - partners'),
  ):
    shares = re.findall(r'([A-Z][^\d,]+?) (\d+)%', text('Economy', field))
    shares = [(float(share), name) for name, share in shares]
    if other := _first(shares, sources):
      yield relation, field, *other


def _first(
    ranked: list[tuple[float, str]], sources: Sources
) -> tuple[str, tuple[str, ...], Country] | None:
  """The sovereign country that is ahead of all others, if one is."""
  if not ranked:
    return None
  top, name = max(ranked)
  other = sources.named(name)
  alone = sum(value == top for value, _ in ranked) == 1
  return (name, (), other) if alone and other and other.sovereign else None


def _of_elements(sources: Sources) -> Iterator[Fact]:
  for row in sources.elements:
    name, symbol = row['name'], row['symbol']
    fact = functools.partial(
        Fact,
        subject=f'element {symbol}',
        named=f'the element {name.lower()}',
        family=f'element {symbol}',
    )
    number = str(row['atomic_number'])
    for relation, answer, needle in (
        ('symbol', symbol, f'symbol {symbol}'),
        ('atomic number', number, f'number {number}'),
    ):
      yield fact(
          relation=relation,
          answers=(answer,),
          titles=(name,),
          needle=needle,
          queries=(f'{name} chemical element symbol',),
      )
    year, place = row['discovery_year'], row['discovery_location']
    if not year or not place or name in _DOUBTED:
      continue
    fact = functools.partial(
        fact,
        titles=(f'{name}: Discovery',),
        queries=(f'element {name} discovered',),
    )
    yield fact(
        relation='year of discovery', answers=(str(year),), needle=str(year)
    )
    who = row['discoverers']
    if not re.search(r',|;| and |Institute|Laborator|Research|RIKEN', who):
      yield fact(relation='discoverer', answers=_person(who), needle=who)
    country = sources.named(place)
    if country and country.sovereign:
      yield fact(
          relation='place of discovery',
          answers=_country_names(country),
          needle=place,
          object=f'country {country.code}',
      )


def _person(name: str) -> tuple[str, ...]:
  usual = _SPELLINGS.get(name, name.removeprefix('Sir '))
  return _names(usual, name, usual.split()[-1], name.split()[-1])


def _of_cities(sources: Sources) -> Iterator[Fact]:
  """The country of each large city whose name no other city has."""
  called: collections.Counter[str] = collections.Counter()
  for city in sources.cities:
    names = filter(_LATIN.search, (city['name'], *city['alternatenames']))
    called.update({normalise(fold(name)) for name in names})
  taken = {normalise(x) for c in sources.countries.values() for x in c.names}
  for city in sources.cities:
    name = normalise(fold(city['name']))
    country = sources.by_iso.get(city['countrycode'])
    if (
        city['population'] >= _MIN_CITY
        and called[name] == 1
        and name not in taken
        and city['name'].replace(' ', '').isalpha()
        and country
        and country.sovereign
        and normalise(fold(country.geo['capital'])) != name
        and country.name not in city['name']
    ):
      yield Fact(
          'country of city',
          subject=f'city {city["geonameid"]}',
          named=city['name'],
          family=f'city {city["geonameid"]}',
          answers=_country_names(country),
          titles=(corpus.city_title(city, sources),),
          needle=country.name,
          queries=(f'{city["name"]} city', city['name']),
          object=f'country {country.code}',
      )


# relation -> (its inverse, queries for the inverse)
_TURNED = {
    'capital': ('country of capital', ('{} capital', '{} city capital of')),
    'internet domain': (
        'country of domain',
        ('Internet country code {}', 'its internet domain is {}'),
    ),
    'calling code': (
        'country of calling code',
        ('telephone calling code {}',),
    ),
    'aircraft prefix': (
        'country of aircraft prefix',
        ('Civil aircraft registration country code prefix {}',),
    ),
    'highest point': (
        'country of highest point',
        ('{} highest point', 'Elevation highest point {} lowest point'),
    ),
    'anthem': (
        'country of anthem',
        ('{} national anthem', 'National anthem(s) title {} lyrics music'),
    ),
    'symbol': (
        'element of symbol',
        ('chemical element symbol {}', 'chemical element with the symbol {}'),
    ),
    'atomic number': (
        'element of number',
        ('chemical element atomic number {}', 'atomic number {} symbol'),
    ),
    'discoverer': ('element of discoverer', ('element discovered by {}',)),
}


def _backwards(forward_facts: list[Fact], sources: Sources) -> Iterator[Fact]:
  """From an answer to its country or element, where nothing else has it."""
  owners = _owners(sources)
  capitals = {
      city['countrycode']: corpus.city_title(city, sources)
      for city in sources.cities
      if corpus.is_capital(city, sources)
  }
  for fact in forward_facts:
    if fact.relation not in _TURNED:
      continue
    relation, queries = _TURNED[fact.relation]
    start = fact.needle if fact.relation == 'discoverer' else fact.answers[0]
    if owners[fact.relation, plain(start)] > 1 or start in _TOO_COMMON:
      continue
    titles = fact.titles
    kind, code = fact.subject.split()
    if kind == 'country':
      country = sources.countries[code]
      title, names = country.name, _country_names(country)
      if relation == 'country of capital' and country.geo['iso'] in capitals:
        titles = (*titles, capitals[country.geo['iso']])
    else:
      title = fact.titles[0].removesuffix(': Discovery')
      names = (title, *_BRITISH.get(title, ()), f'element {title.lower()}')
    yield dataclasses.replace(
        fact,
        relation=relation,
        subject=f'{fact.relation} {plain(start)}',
        named=start,
        answers=names,
        titles=titles,
        needle=title,
        queries=(*(query.format(start) for query in queries), start),
        object=fact.subject,
    )
  yield from _formerly(sources)


def _owners(sources: Sources) -> collections.Counter[tuple[str, str]]:
  """Number of countries and territories by relation and answer."""
  count: collections.Counter[tuple[str, str]] = collections.Counter()
  anthems = [
      country.text('Government', 'National anthem(s)', 'title')
      for country in sources.countries.values()
  ]
  for country in filter(lambda x: x.geo, sources.countries.values()):
    for fact in _of_country(country, sources):
      if fact.relation == 'anthem':
        start = fact.answers[0]
        shared = sum(f'"{start}"' in anthem for anthem in anthems)
        count['anthem', plain(start)] = shared
      elif fact.relation in _TURNED:
        count[fact.relation, plain(fact.answers[0])] += 1
  # Codes that territories share with a longer number, as in 44-1481.
  for row in sources.countries.values():
    if row.geo:
      code = corpus.calling_code(row.geo)
      count['calling code', plain(code.split('-')[0])] += '-' in code
  return count


def _formerly(sources: Sources) -> Iterator[Fact]:
  for country in sources.countries.values():
    former = country.text('Government', 'Country name', 'former')
    if not country.sovereign or ';' in former or '(' in former:
      continue
    for name in filter(None, former.split(', ')):
      is_ambiguous = sources.named(name) is not None or name in _TOO_COMMON
      if name[0].isupper() and not is_ambiguous:
        yield Fact(
            'country of former name',
            subject=f'former name {plain(name)}',
            named=name,
            family=f'country {country.code}',
            answers=_country_names(country),
            titles=(corpus.field_title(country, 'Country name'),),
            needle=country.name,
            queries=(
                f'Country name former {name}',
                f'former {name}',
                f'Country name conventional long form etymology former {name}',
            ),
            object=f'country {country.code}',
        )


def _unique(candidates: Iterator[Fact]) -> list[Fact]:
  """The facts whose subject no other fact has."""
  facts = list(candidates)
  count = collections.Counter((x.relation, x.subject) for x in facts)
  return [x for x in facts if count[x.relation, x.subject] == 1]


def _country_names(country: Country) -> tuple[str, ...]:
  return _names(*country.names)


def _names(*names: str) -> tuple[str, ...]:
  """Without repeats, and without accents too."""
  return tuple(dict.fromkeys(y for x in names for y in (x, fold(x))))
