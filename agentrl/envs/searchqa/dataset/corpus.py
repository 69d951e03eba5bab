"""The passages that searches find: titles and texts, in a fixed order.

The World Factbook is split by field; elements, isotopes, countries and cities
are told in sentences made from the columns of their tables.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from agentrl.envs.searchqa.dataset.sources import Country, Sources, plain
from agentrl.envs.searchqa.records import Passage
from agentrl.envs.searchqa.scoring import fold

CALLING = 'Telephone calling code'  # a title

_MAX_WORDS = 150  # of a passage; longer fields are cut between sentences
_MAX_NAMES = 6  # other names of a city

_CONTINENTS = {
    'AF': 'Africa',
    'AN': 'Antarctica',
    'AS': 'Asia',
    'EU': 'Europe',
    'NA': 'North America',
    'OC': 'Oceania',
    'SA': 'South America',
}


def passages(sources: Sources) -> Iterator[Passage]:
  """Every passage, source by source."""
  for country in sources.countries.values():
    yield from _factbook(country)
  for country in sources.countries.values():
    if country.geo:
      yield from _geonames(country, sources)
  for element in sources.elements:
    yield from _element(element)
  names = {x['atomic_number']: x for x in sources.elements}
  for isotope in sources.isotopes:
    yield _isotope(isotope, names[isotope['atomic_number']])
  for city in sources.cities:
    yield _city(city, sources)


def field_title(country: Country, field: str) -> str:
  """The title of a field of the Factbook."""
  return f'{country.name}: {field}'


def _factbook(country: Country) -> Iterator[Passage]:
  name = country.name
  others = [x for x in country.names[1:2] if x != name]
  full = f'{name} ({others[0]})' if others else name
  seen = set()
  for section, fields in country.fields.items():
    for field, node in fields.items():
      text = _flat(node)
      if not text or (field, text) in seen:
        continue  # some fields are printed in two sections
      seen.add((field, text))
      for part, chunk in enumerate(_chunks(text), 1):
        title = field_title(country, field) + (f' ({part})' * (part > 1))
        yield Passage(title, f'{full}, {section}, {field}: {chunk}')


def _flat(node: Any) -> str:
  """A field with its subfields as one text."""
  if not isinstance(node, dict):
    return node
  parts = []
  for key, value in node.items():
    text = _flat(value)
    if text:
      named = key not in ('text', 'note')
      parts.append(f'{key}: {text}' if named else text)
  return '. '.join(part.rstrip('.') for part in parts)


def _chunks(text: str) -> Iterator[str]:
  """`text` in pieces of at most about _MAX_WORDS, cut after sentences."""
  words = text.split(' ')
  start = 0
  for index, word in enumerate(words, 1):
    length = index - start
    ends = word.endswith(('.', ';')) and length > _MAX_WORDS * 2 // 3
    if (ends or length >= _MAX_WORDS) and len(words) - index > 10:
      yield ' '.join(words[start:index])
      start = index
  yield ' '.join(words[start:])


def _geonames(country: Country, sources: Sources) -> Iterator[Passage]:
  geo, name = country.geo, country.in_text
  sentences = [f'{country.name} is in {_CONTINENTS[geo["continentcode"]]}.']
  if geo['capital']:
    sentences.append(f'Its capital is {geo["capital"]}.')
  sentences.append(f'Its ISO codes are {geo["iso"]} and {geo["iso3"]}.')
  if geo['tld']:
    sentences.append(f'Its internet domain is {geo["tld"]}.')
  neighbours = [
      sources.country_names[code]
      for code in geo['neighbours'].split(',')
      if code in sources.country_names
  ]
  if neighbours:
    sentences.append(f'Its neighbours are {", ".join(neighbours)}.')
  yield Passage(country.name, ' '.join(sentences))
  if geo['currencyname']:
    yield Passage(
        field_title(country, 'Currency'),
        f'The currency of {name} is the {geo["currencyname"].lower()}'
        f' ({geo["currencycode"]}).',
    )
  if geo['phone']:
    yield Passage(
        field_title(country, CALLING),
        f'The telephone calling code of {name} is {calling_code(geo)}.',
    )


def calling_code(geo: Mapping[str, Any]) -> str:
  """A telephone code with its plus sign."""
  return '+' + geo['phone'].lstrip('+')


def _element(row: Mapping[str, Any]) -> Iterator[Passage]:
  name, symbol = row['name'], row['symbol']
  sentences = [
      f'{name} is the chemical element with the symbol {symbol} and the atomic'
      f' number {row["atomic_number"]}.'
  ]
  if row['atomic_weight']:
    sentences.append(f'Its atomic weight is {row["atomic_weight"]:g}.')
  yield Passage(name, ' '.join(sentences))

  sentences = []
  if row['discovery_year'] and row['discovery_location']:
    sentences.append(
        f'The element {name} was discovered in {row["discovery_year"]} in'
        f' {row["discovery_location"]} by {row["discoverers"]}.'
    )
  elif row['discoverers']:
    sentences.append(f'The element {name}: {row["discoverers"]}.')
  if row['name_origin']:
    sentences.append(f'Origin of its name: {row["name_origin"]}')
  yield Passage(f'{name}: Discovery', ' '.join(sentences))

  if row['description']:
    yield Passage(f'{name}: Description', f'{name}: {row["description"]}')
  told = [
      f'{word} of {name}: {row[key]}'
      for word, key in (('Sources', 'sources'), ('Uses', 'uses'))
      if row[key]
  ]
  if told:
    yield Passage(f'{name}: Sources and uses', ' '.join(told))
  measured = [
      f'{word} {row[key]:g} {unit}'
      for word, key, unit in (
          ('density', 'density', 'g/cm3'),
          ('atomic radius', 'atomic_radius', 'pm'),
          ('heat of evaporation', 'evaporation_heat', 'kJ/mol'),
          ('heat of fusion', 'fusion_heat', 'kJ/mol'),
          ('thermal conductivity', 'thermal_conductivity', 'W/(m K)'),
          ('electronegativity (Pauling)', 'en_pauling', ''),
          ('abundance in the crust', 'abundance_crust', 'mg/kg'),
          ('abundance in the sea', 'abundance_sea', 'mg/L'),
      )
      if row[key] is not None
  ]
  measured.append(f'electron configuration {row["electronic_configuration"]}')
  if row['cas']:
    measured.append(f'CAS number {row["cas"]}')
  text = f'{name} has these properties: {", ".join(measured)}.'
  yield Passage(f'{name}: Properties', text.replace(' ,', ','))


def _isotope(row: Mapping[str, Any], element: Mapping[str, Any]) -> Passage:
  name = f'{element["name"]}-{row["mass_number"]}'
  phrases = [f'{name} is an isotope of {element["name"].lower()}']
  if row['mass'] is not None:
    phrases.append(f'with a mass of {row["mass"]:.6g} u')
  text = ' '.join(phrases) + '.'
  if row['abundance']:
    text += f' Its natural abundance is {row["abundance"]:g}%.'
  if row['half_life'] is not None:
    unit = row['half_life_unit'] or ''
    text += f' Its half-life is {row["half_life"]:g} {unit}.'
  elif not row['is_radioactive']:
    text += ' It is stable.'
  if row['discovery_year']:
    text += f' It was first observed in {row["discovery_year"]}.'
  return Passage(name, text)


def city_title(city: Mapping[str, Any], sources: Sources) -> str:
  """The title of a city's passage; cities of one name may share theirs."""
  return f'{city["name"]}, {_place(city, sources)}'


def is_capital(city: Mapping[str, Any], sources: Sources) -> bool:
  """True if GeoNames has the city as its country's capital."""
  country = sources.by_iso.get(city['countrycode'])
  return country is not None and (
      plain(country.geo['capital']) == plain(city['name'])
  )


def _place(city: Mapping[str, Any], sources: Sources) -> str:
  """The state and country of a city."""
  code = city['countrycode']
  country = sources.country_names[code]
  state = sources.states.get(city['admin1code']) if code == 'US' else None
  return f'{state}, {country}' if state else country


def _city(city: Mapping[str, Any], sources: Sources) -> Passage:
  name = city['name']
  text = (
      f'{name} is a city in {_place(city, sources)} with about'
      f' {city["population"]:,} inhabitants. It lies at'
      f' {city["latitude"]:.2f}, {city["longitude"]:.2f} in the time zone'
      f' {city["timezone"]}.'
  )
  if is_capital(city, sources):
    text += f' It is the capital of {_place(city, sources)}.'
  others = [
      x
      for x in sorted(set(city['alternatenames']))
      if x != name and len(x) > 3 and fold(x).isascii()
  ]
  if others:
    text += f' It is also called {", ".join(others[:_MAX_NAMES])}.'
  return Passage(city_title(city, sources), text)
