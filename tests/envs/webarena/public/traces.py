"""Seeded responses and requests for the public tasks, right and mutated."""

import base64
import copy
import json
import random
import re
import urllib.parse

from agentrl.envs.webarena.public import sites, texts
from tests.envs.webarena.public.samples import sample

URLS = {
    'shopping': 'http://shop.test:7770',
    'shopping_admin': 'http://shop.test:7780/admin',
    'reddit': 'http://forum.test:9999',
    'gitlab': 'http://forge.test:8023',
    'map': 'http://map.test:3000',
    'wikipedia': 'http://wiki.test:8888/wikipedia_en/A',
}
_MISSING = object()  # the key is left out
_NAVIGATION = {
    'accept': 'text/html,application/xhtml+xml;q=0.9',
    'sec-fetch-dest': 'document',
    'sec-fetch-mode': 'navigate',
    'sec-fetch-user': '?1',
}


def jobs(tasks, per_task, seed):
  """Pairs of a class of mutation and a job: task id, response, entries."""
  found = []
  for task in tasks:
    for k in range(per_task):
      rng = random.Random(f'{seed}/{task.id}/{k}')
      answer, entries = right_answer(task, rng), right_entries(task, rng)
      name = 'right'
      if k % 3 == 1:
        name, answer = mutated_answer(answer, rng)
      elif k % 3 == 2:
        name, entries = mutated_entries(entries, rng)
      elif k:
        name, answer = mutated_answer(answer, rng)
        other, entries = mutated_entries(entries, rng)
        name = f'{name} + {other}'
      found.append((name, [task.id, answer, entries]))
  return found


# --- right ones


def right_answer(task, rng):
  config = _of(task, 'AgentResponseEvaluator')[0]
  expected = config['expected']
  data = expected.get('retrieved_data')
  schema = config['results_schema'].get('items', {})
  if data is not None:
    data = [_plain(x, schema, rng) for x in data]
  return {
      'task_type': expected['task_type'].upper(),
      'status': expected['status'],
      'retrieved_data': data,
      'error_details': None,
  }


def _plain(value, schema, rng):
  """An expected value without alternatives and patterns."""
  if isinstance(value, dict):
    inner = schema.get('properties', {})
    return {k: _plain(x, inner.get(k, {}), rng) for k, x in value.items()}
  if isinstance(value, list):
    if schema.get('type') == 'array':
      return [_plain(x, schema.get('items', {}), rng) for x in value]
    return _plain(rng.choice(value), schema, rng)
  if texts.is_pattern(value):
    while True:
      text = sample(value, rng)
      if re.fullmatch(value, texts.plain(text), re.IGNORECASE):
        return text
  return value


def right_entries(task, rng):
  found = [visit(sites.fill(url, URLS), rng) for url in task.addresses[:1]]
  if rng.random() < 0.3:
    found.append(entry('GET', f'{URLS[task.sites[0]]}/static/site.css', {}))
  for config in _of(task, 'NetworkEventEvaluator'):
    if not config.get('should_not_exist', False):
      found.append(_right_entry(task, config, rng))
  return found


def _right_entry(task, config, rng):
  expected = config['expected']
  url = expected['url']
  url = rng.choice(url) if isinstance(url, list) else url
  if texts.is_pattern(url):
    url = f'^{sites.fill(url[1:-1], URLS)}$'
    url = sample(url, rng)
    if not url.startswith('http'):
      url = f'{URLS[task.sites[0]]}/{url.lstrip("/")}'
  url = sites.fill(url, URLS)
  query = [
      (name, sample(x, rng) if texts.is_pattern(x) else x)
      for name, values in (expected.get('query_params') or {}).items()
      for x in values
  ]
  if query:
    rng.shuffle(query)
    text = urllib.parse.urlencode(query)
    if config.get('decode_base64_query') and rng.random() < 0.7:
      code = base64.urlsafe_b64encode(text.encode()).decode().rstrip('=')
      url = f'{url.rstrip("/")}/{code}/'
    else:
      url += ('&' if '?' in url else '?') + text
  method = expected.get('http_method', 'GET')
  headers = {'user-agent': 'test'}
  if method == 'GET':
    headers |= _NAVIGATION
  for name, value in (expected.get('headers') or {}).items():
    value = rng.choice(value) if isinstance(value, list) else value
    if texts.is_pattern(value):
      value = sample(sites.fill(value, URLS), rng)
    headers[name] = sites.fill(value, URLS)
  return entry(
      method,
      url,
      headers,
      post=_post(config, rng) if method != 'GET' else None,
      status=expected.get('response_status', 200),
      content=_content(expected),
      cookies={
          name: sample(x, rng) if texts.is_pattern(x) else x
          for name, x in (expected.get('response_cookies') or {}).items()
      },
  )


def _post(config, rng):
  expected = config['expected']
  schema = (config.get('post_data_schema') or {}).get('properties', {})
  fields = {}
  paths = False
  for key, value in (expected.get('post_data') or {}).items():
    if isinstance(value, list) and schema.get(key, {}).get('type') != 'array':
      value = rng.choice(value)
    if texts.is_pattern(value):
      value = sample(value, rng)
    if isinstance(value, str):
      value = sites.fill(value, URLS)
    if value is None:
      continue
    pattern = key.removeprefix('$.')
    if texts.is_pattern(pattern):
      fields[sample(f'^({pattern[1:-1]})$', rng)] = value
    elif key.startswith('$'):
      paths = True
      _put(fields, key, value)
    else:
      fields[key] = value
  if not expected.get('post_data'):
    return None
  fields = fields or {'product': '1'}  # what is expected is that one is missing
  fields = dict(rng.sample(list(fields.items()), len(fields)))
  if paths or any(isinstance(x, (list, dict, bool)) for x in fields.values()):
    return {'mimeType': 'application/json', 'text': json.dumps(fields)}
  if rng.random() < 0.2:
    text = ''.join(
        f'--xyz\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'
        f'{value}\r\n'
        for name, value in fields.items()
    )
    return {
        'mimeType': 'multipart/form-data; boundary=xyz',
        'text': f'{text}--xyz--\r\n',
    }
  return {
      'mimeType': 'application/x-www-form-urlencoded; charset=UTF-8',
      'text': urllib.parse.urlencode(fields),
  }


def _content(expected):
  fields = {}
  for key, value in (expected.get('response_content') or {}).items():
    if key.startswith('$'):
      _put(fields, key, value)
    else:
      fields[key] = value
  if not fields:
    return {'mimeType': 'text/html', 'text': '<p>'}
  return {'mimeType': 'application/json', 'text': json.dumps(fields)}


def _put(fields, key, value):
  """Puts a value where a JSONPath leads."""
  if '?(' in key:
    name = re.search(r"\['([^']*)'\]", key)[1]
    last = key.rpartition('.')[2]
    rows = [{'newProduct': 1, last: x} for x in value]
    rows.append({'newProduct': 0, last: 'other'})
    fields[name] = json.dumps(rows)
    return
  steps = [x or int(y) for x, y in re.findall(r'\.(\w+)|\[(\d+)\]', key)]
  place = fields
  for step, after in zip(steps, [*steps[1:], None], strict=True):
    empty = value if after is None else [] if isinstance(after, int) else {}
    if isinstance(place, list):
      while len(place) <= step:
        place.append({})
      place[step] = place[step] or empty
    elif step not in place:
      place[step] = empty
    place = place[step]


def visit(url, rng):
  headers = dict(_NAVIGATION)
  if rng.random() < 0.3:
    del headers['sec-fetch-user']
  return entry('GET', url, headers)


def entry(
    method, url, headers, post=None, status=200, content=None, cookies=None
):
  request = {
      'method': method,
      'url': url,
      'headers': [{'name': k, 'value': v} for k, v in headers.items()],
  }
  if post is not None:
    request['postData'] = post
  return {
      'request': request,
      'response': {
          'status': status,
          'headers': [],
          'redirectURL': '',
          'content': content or {},
          'cookies': [
              {'name': name, 'value': urllib.parse.quote(value)}
              for name, value in (cookies or {}).items()
          ],
      },
  }


def _of(task, name):
  return [config for config in task.evals if config['evaluator'] == name]


# --- mutated responses


def mutated_answer(answer, rng):
  """Another answer, and the name of what was done."""
  while True:
    name, function = rng.choice(ANSWERS)
    found = function(copy.deepcopy(answer), rng)
    if found != answer:
      return name, found


def _each(function):
  """Applies a function to the leaves of the data."""

  def over(value, rng):
    if isinstance(value, dict):
      return {k: over(x, rng) for k, x in value.items()}
    if isinstance(value, list):
      return [over(x, rng) for x in value]
    return function(value, rng)

  def mutate(answer, rng):
    if answer['retrieved_data'] is None:
      return answer
    return {**answer, 'retrieved_data': over(answer['retrieved_data'], rng)}

  return mutate


def _on_text(function):
  return _each(lambda x, rng: function(x, rng) if isinstance(x, str) else x)


def _money(x, rng):
  if isinstance(x, bool) or not isinstance(x, (int, float)):
    return x
  forms = [
      '${:,.2f}',
      '{:,.2f} USD',
      '€{:.2f}',
      '${:.1f}',
      '{:.2f}',
      '-${:.2f}',
  ]
  forms += ['US$ {:,.2f}', '{:.2f}€', 'Total: ${:.2f}', '${:.0f}', '{:,.0f}']
  return rng.choice(forms).format(x)


def _number(x, rng):
  if isinstance(x, bool) or not isinstance(x, (int, float)):
    return x
  words = 'zero one two three four five six seven eight nine ten'.split()
  forms = [str(x), f' {x} ', f'{x:,}', x + 1, f'{x}.0', x + 0.05, x + 0.2, -x]
  forms += [f'{x} items', f'about {x}', f'{float(x):.3e}', bool(x), [x], None]
  if x == int(x) and 0 <= x <= 10:
    forms += [words[int(x)], f'{words[int(x)].title()} of them']
    forms += [f'twenty-{words[int(x)]}', 'one hundred and five']
  return rng.choice(forms)


def _time(x, rng):
  forms = [
      lambda x: x.replace('min', ' minutes').replace('h', ' hours'),
      lambda x: x.replace('min', 'm'),
      lambda x: f'0:{x}',
      lambda x: x + ' by car',
      lambda x: re.sub(r'\d+', lambda m: str(int(m[0]) + 2), x, count=1),
      lambda x: re.sub(r'(\d+)min', r'\1:00', x),
      lambda x: re.sub(r'(\d+)min', r'00:\1:00', x),
      lambda x: re.sub(r'(\d+)h.*?(\d+)min', r'\1:\2 hours', x),
      lambda x: re.sub(r'(\d+)h.*?(\d+)min', r'\1 hr, \2 mins', x),
      lambda x: re.sub(r'[a-z]', '', x),
      lambda x: x + ' and 5 seconds',
      lambda x: x.replace(' ', ''),
      lambda x: x.replace('km', ' km').replace('m', ' meters'),
      lambda x: x.replace('km', ' kilometers'),
      lambda x: re.sub(
          r'([\d.]+)km', lambda m: f'{float(m[1]) * 1000:.0f} m', x
      ),
      lambda x: re.sub(
          r'([\d.]+)km', lambda m: f'{float(m[1]) / 1.609344:.2f} miles', x
      ),
      lambda x: re.sub(
          r'^(\d+)m$', lambda m: f'{float(m[1]) / 0.3048:,.0f} ft', x
      ),
      lambda x: x.replace('km', 'k'),
      lambda x: x.replace('km', 'mi'),
      lambda x: f'~{x}',
      lambda x: f'{x}.',
      lambda x: x.upper(),
  ]
  return rng.choice(forms)(x)


def _date(x, rng):
  months = {
      'January': 'Jan', 'February': 'Feb', 'March': 'Mar', 'April': 'Apr',
      'August': 'Aug', 'September': 'Sept', 'October': 'Oct',
      'November': 'Nov', 'December': 'Dec',
  }  # fmt: skip
  names = list(months)

  def iso(x):
    return re.sub(r'(\d\d)/(\d\d)/(\d{4})', r'\3-\1-\2', x)

  def short(x):
    for name, brief in months.items():
      x = x.replace(name, brief)
    return x

  forms = [
      iso,
      short,
      lambda x: re.sub(r'(\d\d)/(\d\d)/(\d{4})', r'\2.\1.\3', x),
      lambda x: re.sub(r'(\w+) (\d+),? (\d{4})', r'\2 \1 \3', x),
      lambda x: re.sub(r'(\w+) (\d+),? (\d{4})', r'\1 \2nd,\3', x),
      lambda x: re.sub(r'(\d\d)/(\d\d)/(\d\d)(\d\d)', r'\1/\2/\4', x),
      lambda x: f'{x} 10:30 AM',
      lambda x: x.replace('20', '19'),
      lambda x: f'on {x}',
      lambda x: str(names.index(x) + 1) if x in names else x,
      lambda x: f'0{names.index(x) + 1}' if x in names else x,
      lambda x: x[:3] if x in names else x,
  ]
  return rng.choice(forms)(x)


def _letters(x, rng):
  forms = [
      str.upper,
      str.title,
      str.lower,
      lambda x: f'  {x}\n',
      lambda x: x.replace(' ', '  '),
      lambda x: x.replace(' ', '\u00a0'),
      lambda x: x.replace(' ', '-'),
      lambda x: x.replace('-', ' '),
      lambda x: x.replace('-', '\u2013'),
      lambda x: x.replace("'", '\u2019'),
      lambda x: f'"{x}"',
      lambda x: f'{x}.',
      lambda x: f'\u201c{x}\u201d',
      lambda x: f'{x}!?',
      lambda x: x.replace('e', 'é').replace('o', 'ö'),
      lambda x: x.replace('ss', 'ß').replace('ae', 'æ'),
      lambda x: ''.join(
          chr(ord(c) + 0xFEE0) if '!' <= c <= '~' else c for c in x
      ),
      lambda x: x.replace('fi', '\ufb01'),
      lambda x: f'{x}\u2122',
      lambda x: f'{x} \u00a9 2020',
      lambda x: x.replace(' ', '\u200b '),
      lambda x: x[:-1],
      lambda x: x[1:],
      lambda x: f'{x} x',
      lambda x: f'The answer is {x}',
      lambda x: ' '.join(reversed(x.split())),
      lambda x: x.replace('http://', 'https://'),
      lambda x: x.replace('.', ','),
      lambda x: '',
      lambda x: [x],
      lambda x: {'value': x},
      lambda x: 5,
      lambda x: 'N/A',
      lambda x: f'{x} \u2603',
      lambda x: f'{x}\u2026',
      lambda x: x + ' \u20ac5',
  ]
  return rng.choice(forms)(x)


def _place(x, rng):
  """Coordinates in other forms."""
  if not (isinstance(x, dict) and 'latitude' in x):
    return x
  a, b = x['latitude'], x['longitude']
  return rng.choice([
      f'{a}, {b}',
      f'{a} {b}',
      f'{a};{b}',
      f'({a}, {b})',
      [a, b],
      [float(a), float(b)],
      {'lat': a, 'lon': b},
      {'lat': float(a), 'lng': float(b)},
      {'latitude': float(a) + 5e-6, 'longitude': float(b)},
      {'latitude': float(a) + 2e-5, 'longitude': float(b)},
      {'longitude': a, 'latitude': b},
      {'x': a, 'y': b},
      f'{a}\u00b0 N, {b}\u00b0 W',
      f'lat {a}, {b}',
      f'{b}, {a}',
      [a],
      a,
      {'latitude': float(a), 'longitude': float(b) + 360},
      f'{a}, {b}, 2km',
  ])


def _places(answer, rng):
  if answer['retrieved_data'] is None:
    return answer
  data = [_place(x, rng) for x in answer['retrieved_data']]
  return {**answer, 'retrieved_data': data}


def _items(answer, rng):
  data = answer['retrieved_data']
  if not data:
    return {**answer, 'retrieved_data': rng.choice([[], None, ['x'], {}, 'x'])}
  data = list(data)
  rng.shuffle(data)
  one = data[0]
  changed = rng.choice([
      data,
      data[1:],
      [*data, one],
      [*data, 'x'],
      [*data, None],
      [data],
      one,
      [],
      None,
      {},
      '',
      json.dumps(data),
      ', '.join(map(str, data)),
      [json.dumps(x) for x in data],
      [str(x) for x in data],
      list(reversed(data)),
      {'items': data},
      0,
      False,
  ])
  return {**answer, 'retrieved_data': changed}


def _properties(answer, rng):
  data = answer['retrieved_data']
  if not data or not all(isinstance(x, dict) for x in data):
    return answer
  one = dict(data[0])
  name = rng.choice(list(one))
  match rng.randrange(5):
    case 0:
      del one[name]
    case 1:
      one['more'] = 'x'
    case 2:
      one[name] = None
    case 3:
      one[name.upper()] = one.pop(name)
    case 4:
      one = dict(reversed(one.items()))
  return {**answer, 'retrieved_data': [one, *data[1:]]}


def _word(key, choices):
  def mutate(answer, rng):
    value = rng.choice(choices)
    if callable(value):
      value = value(answer[key])
    if value is _MISSING:
      return {k: x for k, x in answer.items() if k != key}
    return {**answer, key: value}

  return mutate


def _old_name(answer, rng):
  answer['performed_operation'] = answer.pop('task_type')
  if rng.random() < 0.3:
    answer['task_type'] = 'RETRIEVE'
  return answer


def _as_text(answer, rng):
  text = json.dumps(answer, ensure_ascii=rng.random() < 0.5)
  return rng.choice([
      text,
      f'  {text}\n',
      f'```json\n{text}\n```',
      f'```\n{text}\n```',
      f'Here it is:\n```json\n{text}\n```\nDone.',
      f'Here it is: {text}',
      text[:-1],
      text.replace('"', "'"),
      f'[{text}]',
      json.dumps(text),
      '',
      'null',
      '```json\n\n```',
      json.dumps(answer, indent=2),
      f'{text}{text}',
  ])


def _none(answer, rng):
  return rng.choice(
      [None, [], {}, [answer], 'done', '{}', {'status': 'SUCCESS'}]
  )


ANSWERS = (
    ('letters', _on_text(_letters)),
    ('letters', _on_text(_letters)),
    ('money', _each(_money)),
    ('number', _each(_number)),
    ('time', _on_text(_time)),
    ('date', _on_text(_date)),
    ('coordinates', _places),
    ('items', _items),
    ('items', _items),
    ('properties', _properties),
    ('boolean', _each(lambda x, rng: rng.choice(
        ['yes', 'No', 1, 0, 'TRUE', 't', 'maybe', not x, '1', ' on ']
    ) if isinstance(x, bool) else x)),
    ('status', _word('status', [
        str.lower, 'SUCCESS', 'NOT_FOUND_ERROR', 'UNKNOWN_ERROR', '', None, 5,
        lambda x: f' {x} ', lambda x: f'{x}.', _MISSING, ['SUCCESS'],
        lambda x: x.replace('_', ' '), lambda x: x.replace('_', '-'),
    ])),
    ('task_type', _word('task_type', [
        str.lower, 'RETRIEVE', 'MUTATE', 'NAVIGATE', '', None, True, _MISSING,
        str.title, lambda x: f'"{x}"', {'type': 'RETRIEVE'},
    ])),
    ('old name', _old_name),
    ('more keys', lambda x, rng: {**x, 'reasoning': 'because', 'score': 1}),
    ('no data', lambda x, rng: {
        k: v for k, v in x.items() if k != 'retrieved_data'
    }),
    ('as text', _as_text),
    ('as text', _as_text),
    ('no object', _none),
)  # fmt: skip


# --- mutated requests


def mutated_entries(entries, rng):
  """Other entries, and the name of what was done."""
  while True:
    found = copy.deepcopy(entries)
    name, function = rng.choice(REQUESTS)
    function(found, rng)
    if found and found != entries:
      return name, found


def _last(function):
  def mutate(entries, rng):
    which = rng.choice(entries[1:] or entries)
    function(which, rng)

  return mutate


def _set_method(each, rng):
  each['request']['method'] = rng.choice(['GET', 'POST', 'PUT', 'get', 'post'])


def _set_path(each, rng):
  url = each['request']['url']
  parts = urllib.parse.urlsplit(url)
  path = rng.choice([
      parts.path + '/',
      parts.path.rstrip('/'),
      parts.path + '/more',
      parts.path.upper(),
      parts.path.replace('/', '//'),
      parts.path + '/./',
      parts.path + '/x/..',
      parts.path.replace('-', '%2d'),
      parts.path.replace('e', '%65'),
      parts.path.rpartition('/')[0],
      parts.path + ';v=1',
      parts.path + '.html',
      parts.path + '.png',
  ])
  each['request']['url'] = parts._replace(path=path).geturl()


def _set_query(each, rng):
  url = each['request']['url']
  parts = urllib.parse.urlsplit(url)
  pairs = urllib.parse.parse_qsl(parts.query, keep_blank_values=True)
  match rng.randrange(11):
    case 0:
      rng.shuffle(pairs)
    case 1:
      pairs.append(('extra', '1'))
    case 2:
      pairs.append(rng.choice([
          ('page', '2'), ('sort', 'x'), ('isAjax', 'true'), ('_', '123'),
          ('serializer', 'issue'), ('PAGE', '1'), ('scope', 'all'),
      ]))  # fmt: skip
    case 3:
      pairs = pairs[:-1]
    case 4:
      pairs = [(k, v.upper()) for k, v in pairs]
    case 5:
      pairs = [(k, f' {v} ') for k, v in pairs]
    case 6:
      pairs = [(k, f'{v}x') for k, v in pairs]
    case 7:
      pairs.append(('empty', ''))
    case 8:
      pairs += [(k, f'0{v}') for k, v in pairs[:1]]
    case 9:
      pairs = [(k.upper(), v) for k, v in pairs]
    case 10:
      pairs = [(k, v.replace('/', '-')) for k, v in pairs]
  parts = parts._replace(query=urllib.parse.urlencode(pairs))
  each['request']['url'] = parts.geturl()


def _set_host(each, rng):
  url = each['request']['url']
  each['request']['url'] = rng.choice([
      url.replace('.test', '.other'),
      url.replace('http:', 'https:'),
      url.replace('http:', 'HTTP:'),
      re.sub('//[a-z]+', lambda m: m[0].upper(), url),
      url + '#part',
      re.sub(r':\d+', '', url, count=1),
      url + '?',
      url + '&',
      f'http://other.test/?next={url}',
  ])


def _set_headers(each, rng):
  headers = each['request']['headers']
  match rng.randrange(6):
    case 0:
      headers.clear()
    case 1:
      headers[:] = [x for x in headers if 'sec-fetch' not in x['name']]
    case 2:
      headers[:] = [x for x in headers if x['name'].lower() != 'referer']
    case 3:
      for x in headers:
        x['name'] = x['name'].title()
    case 4:
      for x in headers:
        if x['name'].lower() in ('referer', 'cookie'):
          x['value'] += rng.choice(['x', '/', '?page=2', '&sort=up', '#a'])
    case 5:
      for x in headers:
        x['value'] = x['value'].upper()


def _set_status(each, rng):
  each['response']['status'] = rng.choice([200, 201, 204, 302, 404, 500, -1])


def _set_post(each, rng):
  post = each['request'].get('postData')
  if not post:
    each['request']['postData'] = {
        'mimeType': 'application/x-www-form-urlencoded', 'text': 'a=1'
    }  # fmt: skip
    return
  if rng.random() < 0.15:
    post['mimeType'] = rng.choice(['text/plain', '', 'application/json'])
    return
  if rng.random() < 0.1:
    del each['request']['postData']
    return
  if 'json' in post['mimeType']:
    data = json.loads(post['text'])
    post['text'] = json.dumps(_in_tree(data, rng))
    return
  if 'multipart' in post['mimeType']:
    post['text'] = post['text'].replace(
        *rng.choice([('\r\n', '\n'), ('1', '2'), ('name="', 'name="x')])
    )
    return
  pairs = urllib.parse.parse_qsl(post['text'], keep_blank_values=True)
  place = rng.randrange(len(pairs))
  name, value = pairs[place]
  pairs[place] = rng.choice([
      (name, value.upper()),
      (name, f' {value}\r\n'),
      (name, f'{value}x'),
      (name, ''),
      (f'{name}x', value),
      (name, value.replace(' ', '  ')),
      (name, value.replace('.', '')),
      (name, f'{value}.'),
      (name, f'${value}'),
      (name, f'{value}0'),
      (name, f'{value}.00'),
      (name, ','.join(reversed(value.split(',')))),
      (name, value.replace('\n', '\r\n')),
      (name, value.replace('- ', '* ')),
  ])
  if rng.random() < 0.2:
    rng.shuffle(pairs)
  if rng.random() < 0.2:
    pairs.append(('form_key', 'abc'))
  if rng.random() < 0.1:
    pairs.append((name, 'second'))
  post['text'] = urllib.parse.urlencode(pairs)


def _in_tree(data, rng):
  """Changes one value of a JSON tree."""
  if isinstance(data, dict) and data:
    name = rng.choice(list(data))
    if rng.random() < 0.1:
      return {k: x for k, x in data.items() if k != name}
    return {**data, name: _in_tree(data[name], rng)}
  if isinstance(data, list) and data:
    place = rng.randrange(len(data))
    changed = [
        _in_tree(x, rng) if k == place else x for k, x in enumerate(data)
    ]
    return rng.choice([changed, changed, [*data, 5], data[::-1], data[1:]])
  if isinstance(data, str):
    return rng.choice([
        data.upper(),
        f' {data} ',
        f'{data}x',
        data.replace('\n', '\r\n'),
        data.replace('- ', '* '),
        data.replace('- ', '  +  '),
        data.replace('\n\n', '\n\n\n\n'),
        data.replace('# ', '#   '),
        data.replace('](', '] ('),
        data.replace('[', '[ '),
        data.replace('(', '( '),
        data.replace('\n', '  \n'),
        data.replace('"', '" '),
        data.replace('http://', 'https://'),
        None,
        5,
    ])
  if isinstance(data, bool):
    return rng.choice([not data, int(data), str(data)])
  if isinstance(data, (int, float)):
    return rng.choice([data + 1, str(data), float(data), None, [data]])
  return 'x'


def _set_content(each, rng):
  content = each['response']['content']
  if 'json' in content.get('mimeType', ''):
    content['text'] = json.dumps(_in_tree(json.loads(content['text']), rng))
  for cookie in each['response']['cookies']:
    cookie['value'] = rng.choice([
        cookie['value'].upper(), '', f'{cookie["value"]}%20x', cookie['value']
    ])  # fmt: skip


def _another(entries, rng):
  entries.append(visit('http://shop.test:7770/other.html', rng))


def _twice(entries, rng):
  again = copy.deepcopy(entries[-1])
  _set_post(again, rng)
  entries.append(again)


def _backwards(entries, rng):
  entries.reverse()


def _fewer(entries, rng):
  del entries[rng.randrange(len(entries))]


def _files(entries, rng):
  for each in entries[1:]:
    each['request']['url'] = each['request']['url'].split('?')[0] + '.js'


def _forbidden(entries, rng):
  entries.append(
      entry('POST', 'http://shop.test:7770/contact/index/post', {}, status=302)
  )


REQUESTS = (
    ('method', _last(_set_method)),
    ('path', _last(_set_path)),
    ('query', _last(_set_query)),
    ('query', _last(_set_query)),
    ('host', _last(_set_host)),
    ('headers', _last(_set_headers)),
    ('status code', _last(_set_status)),
    ('post data', _last(_set_post)),
    ('post data', _last(_set_post)),
    ('post data', _last(_set_post)),
    ('content', _last(_set_content)),
    ('another page', _another),
    ('request twice', _twice),
    ('backwards', _backwards),
    ('fewer requests', _fewer),
    ('files', _files),
    ('unwanted request', _forbidden),
)
