"""Dates, addresses and texts as the pages show them."""

import datetime
import re
import sqlite3
import urllib.parse

from agentrl.sites.site import Visit

_SLUG = 60  # characters


def when(time: str) -> str:
  """A column's time as `June 3, 2023, 14:05`."""
  moment = datetime.datetime.fromisoformat(time)
  return f'{moment:%B} {moment.day}, {moment:%Y, %H:%M}'


def day(time: str) -> str:
  """A column's time as `June 3, 2023`."""
  return when(time).rpartition(',')[0]


def host(url: str) -> str:
  """The host of an address."""
  return urllib.parse.urlsplit(url).netloc


def slug(title: str) -> str:
  """A title as the last part of an address."""
  words = re.sub('[^a-z0-9]+', '-', title.lower()).strip('-')
  return words[:_SLUG].rstrip('-') or '-'


def path(post: sqlite3.Row) -> str:
  """The address of a row of `posts`, or of `replies`."""
  if 'submission_id' in post.keys():
    return f'/f/{post["forum"]}/{post["submission_id"]}/-/comment/{post["id"]}'
  return f'/f/{post["forum"]}/{post["id"]}/{slug(post["title"])}'


def paragraphs(text: str) -> list[list[str]]:
  """The lines of a text's paragraphs."""
  parts = re.split(r'\n\s*\n', text.strip())
  return [[x for x in part.split('\n') if x.strip()] for part in parts]


def back(visit: Visit, default: str) -> str:
  """The page that a form asks to go back to, if it is one of this site."""
  to = visit.form.get('next', '')
  # An address of another site may begin with two slashes, or one and '\\'.
  if re.fullmatch(r'/(?![/\\])[!-~]*', to):
    return to
  return default
