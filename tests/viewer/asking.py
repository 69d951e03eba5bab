"""Requests to the routes of a viewer."""

import json
import time
import urllib.parse
import urllib.request
from urllib.error import HTTPError


def get(url, route, **query):
  """The JSON of a route, or of its error with its `status`."""
  try:
    return json.loads(text(url, route, **query))
  except HTTPError as error:
    return {'status': error.code, **json.load(error)}


def text(url, route, **query):
  """The body of an answer."""
  words = urllib.parse.urlencode(query, doseq=True)
  with urllib.request.urlopen(f'{url}api/{route}?{words}') as response:
    return response.read().decode()


def wait_for(count, url, **query):
  """Waits until the index has this many episodes of a query."""
  deadline = time.monotonic() + 30
  while get(url, 'failures', **query)['episodes'] != count:
    assert time.monotonic() < deadline
    time.sleep(0.05)
