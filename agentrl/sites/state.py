"""One episode's state: its copies of the records, and what it asked for."""

import dataclasses
import random
import sqlite3
from collections.abc import Mapping, Sequence

from agentrl.sites.store import Change, Store


@dataclasses.dataclass(frozen=True)
class Faults:
  """Troubles of real sites, which an episode may meet.

  Attributes:
    slow: share of pages that come late.
    slow_s: how late, in real seconds.
    errors: share of pages that fail with status 500, once each.
    session: pages of a site after which the visitor has to sign in again; 0:
      never.
  """

  slow: float = 0.0
  slow_s: float = 0.5
  errors: float = 0.0
  session: int = 0


@dataclasses.dataclass(frozen=True)
class Request:
  """A request that a site answered.

  Attributes:
    site: its name.
    method: GET or POST.
    path: with the query, as the address bar shows it.
    status: of the answer.
    document: whether it is one, and not a part of one.
  """

  site: str
  method: str
  path: str
  status: int
  document: bool


class State:
  """One episode's. It is used by one thread at a time.

  Args:
    stores: by name.
    faults: that it may meet.
    seed: of their draws.
  """

  def __init__(self, stores: Mapping[str, Store], faults: Faults, seed: str):
    self._stores = stores
    self._copies: dict[str, sqlite3.Connection] = {}
    self._chance = random.Random(seed)
    self._failed: set[str] = set()
    self.faults = faults
    self.requests: list[Request] = []
    self.signed_out: set[str] = set()  # sites
    self.notices: dict[str, str] = {}  # site -> shown on its next page
    self.failure = ''  # of the records: the episode is worth nothing
    self._pages: dict[str, int] = {}  # since the last sign-in, by site

  def copy(self, store: str) -> sqlite3.Connection:
    """The episode's copy of a store, made when first asked for."""
    if store not in self._copies:
      self._copies[store] = self._stores[store].copy()
    return self._copies[store]

  def changes(self) -> Sequence[Change]:
    """All rows that the episode has changed."""
    return tuple(
        change
        for name, copy in self._copies.items()
        for change in self._stores[name].changes(copy)
    )

  def trouble(self, site: str, path: str) -> str:
    """'error', 'slow', 'session' or '', for a page that is asked for."""
    faults = self.faults
    self._pages[site] = self._pages.get(site, 0) + 1
    if faults.session and self._pages[site] > faults.session:
      self.signed_out.add(site)
      return 'session'
    draw = self._chance.random()
    if draw < faults.errors and f'{site}{path}' not in self._failed:
      self._failed.add(f'{site}{path}')
      return 'error'
    return 'slow' if draw > 1 - faults.slow else ''

  def sign_in(self, site: str) -> None:
    """Begins another session."""
    self.signed_out.discard(site)
    self._pages[site] = 0

  def close(self) -> None:
    """Frees the copies."""
    copies, self._copies = self._copies, {}
    for copy in copies.values():
      copy.close()
