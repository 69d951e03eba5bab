"""Seeded answers, addresses and pages for the original's evaluators."""

import html
import random

from agentrl.envs.webarena.public import sites
from tests.envs.webarena.public.traces import URLS

_AROUND = (
    '{}', ' {} ', "'{}'", '"{}"', '{}.', 'The answer is {}.', '{}, {}', '({})',
    '{} items', '{}\n', '"{}', "{}'", '1{}', '{}0', '{}/{}', '{}-{}', '{}:',
    '{}:30', '#{}', '${}', '{}%', "{}'s", '`{}`', '{}; no', '{}. and more',
    '*{}*', '\u2018{}\u2019', '\u201c{}\u201d', '{}\u2026', '{}...', '{}--{}',
    '\u2013{}', '{}!', '[{}]', '<b>{}</b>', '{{{}}}', '{}_x', '{}&{}', '~{}',
)  # fmt: skip


def cases(tasks, per_task, seed):
  """Triples: kind, the task's `eval` in part, and what is compared."""
  found = []
  for task in tasks:
    config = sites.fill_all(task.evals[0], URLS)
    for k in range(per_task):
      rng = random.Random(f'{seed}/{task.id}/{k}')
      if 'string_match' in config['eval_types']:
        found.append(_answer(config, rng, k))
      if 'url_match' in config['eval_types']:
        found.append(_url(config, rng, k))
      for check in config['program_html'][:2]:
        found.append(_page(check, rng, k))
    found.append(['post_url', {}, _post(random.Random(f'{seed}/{task.id}'))])
  return found


def _answer(config, rng, k):
  references = config['reference_answers']
  parts = []
  for wanted in references.values():
    parts += [wanted] if isinstance(wanted, str) else wanted
  text = ' '.join(parts) if len(parts) > 1 else parts[0]
  if k:
    text = _changed(text, rng)
  part = {
      'eval_types': ['string_match'],
      'reference_answers': references,
      'string_note': config.get('string_note', ''),
  }
  return ['string', part, text]


def _changed(text, rng):
  text = rng.choice([
      str, str.upper, str.title, lambda x: x[1:], lambda x: x[:-1],
      lambda x: ' '.join(reversed(x.split(' '))), lambda x: 'N/A',
      lambda x: '', lambda x: x.replace(' ', '  '), lambda x: f'{x} {x}',
  ])(text)  # fmt: skip
  around = rng.choice(_AROUND)
  return around.format(*[text] * 2)


def _url(config, rng, k):
  reference = config['reference_url']
  url = rng.choice(reference.split(' |OR| ')) if reference else ''
  if k:
    url = rng.choice([
        lambda x: f'{x}/',
        lambda x: f'{x}?a=1',
        lambda x: f'{x}&a=1',
        lambda x: f'{x}#part',
        lambda x: f'{x}/more/of/it',
        lambda x: x.partition('?')[0],
        lambda x: x.replace('http:', 'https:'),
        lambda x: x.replace('.test', '.other'),
        lambda x: x.upper(),
        lambda x: '&'.join(reversed(x.split('&'))),
        lambda x: x.replace('=', '=x'),
        lambda x: x.rpartition('/')[0],
        lambda x: f'http://other.test/{x.partition("//")[2]}',
        lambda x: f'http://other.test/?next={x}',
        lambda x: x.replace('%20', '+'),
        lambda x: f'{x}//',
    ])(url)
  part = {'eval_types': ['url_match'], 'reference_url': reference}
  if 'url_note' in config:
    part['url_note'] = config['url_note']
  return ['url', part, url]


def _page(check, rng, k):
  required = check['required_contents']
  if 'exact_match' in required:
    text = required['exact_match']
    if k:
      text = _changed(text, rng)
  else:
    parts = [
        rng.choice(each.split(' |OR| ')) for each in required['must_include']
    ]
    if k and rng.random() < 0.5:
      place = rng.randrange(len(parts))
      parts[place] = _changed(parts[place], rng)
    rng.shuffle(parts)
    text = f'<p>{"</p><p>".join(parts)}</p>'
  if rng.random() < 0.5:
    text = html.escape(text)
  target = {'url': 'last', 'locator': '', 'required_contents': required}
  return [
      'page',
      {'eval_types': ['program_html'], 'program_html': [target]},
      text,
  ]


def _post(rng):
  return rng.choice([
      'http://f.test/f/books/123/a-title', 'http://f.test:99/f/books/123',
      'http://f.test/f/books', 'http://f.test/', 'http://f.test/user/a/b/c',
      'https://f.test/f/books/123/a/-/comment/5?x=1#y', 'http://f.test/f/a/b/',
      'http://f.test/f//b/c', 'about:blank', 'http://f.test/x/f/a/b',
  ])  # fmt: skip
