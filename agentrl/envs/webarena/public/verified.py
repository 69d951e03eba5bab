"""The evaluators of webarena-verified: of the answer, and of the requests.

Statuses and scores are theirs, from their published behaviour; `values` says
where an answer that is accepted there is refused here.
"""

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from agentrl.envs.webarena.public import addresses, events, values
from agentrl.envs.webarena.public.addresses import Address, Places, Rules
from agentrl.envs.webarena.public.events import Entry

_FENCE = re.compile(r'```(?:json)?\s*(.*?)\n?```', re.DOTALL)
_GIVEN = Places({})


@dataclasses.dataclass(frozen=True)
class Verdict:
  """The result of an evaluation.

  Attributes:
    status: 'success', 'failure', or 'error': the evaluation broke off.
    why: reasons of errors, for a person.
    answer: the error is the answer's: a status that is no text, say. Any other
      is of the task or of the recorded requests.
  """

  status: str
  why: str = ''
  answer: bool = False

  @property
  def score(self) -> float:
    return float(self.status == 'success')


def evaluate(
    evals: Sequence[Mapping[str, Any]],
    urls: Mapping[str, str],
    answer: Any,
    entries: Sequence[Entry],
) -> Verdict:
  """Evaluates an episode of a task of webarena-verified.

  Args:
    evals: the task's, as in its file.
    urls: the task's sites -> their URLs, without a slash at the end.
    answer: the response, as text or as a JSON value.
    entries: the requests, in order; at least one.
  """
  if not entries:
    return Verdict('error', 'No request was recorded.')
  places = Places(urls)
  responses = [x for x in evals if x['evaluator'] == 'AgentResponseEvaluator']
  task_type = responses[0]['expected']['task_type'].lower()
  verdicts = []
  for config in evals:
    if config['evaluator'] == 'AgentResponseEvaluator':
      verdicts.append(of_answer(config, places, answer, task_type))
      continue
    try:
      right = of_requests(config, places, entries, task_type)
      verdicts.append(Verdict('success' if right else 'failure'))
    except ValueError as error:
      verdicts.append(Verdict('error', str(error)))
  errors = [verdict for verdict in verdicts if verdict.status == 'error']
  if errors:
    return Verdict(
        'error',
        ' '.join(verdict.why for verdict in errors),
        all(verdict.answer for verdict in errors),
    )
  won = all(verdict.status == 'success' for verdict in verdicts)
  return Verdict('success' if won else 'failure')


# --- the answer


def of_answer(
    config: Mapping[str, Any], places: Places, answer: Any, task_type: str
) -> Verdict:
  """Compares a response with the expected one.

  Args:
    config: an AgentResponseEvaluator of a task.
    places: the task's sites.
    answer: the response, as text or as a JSON value.
    task_type: of the task: 'retrieve', 'mutate' or 'navigate'.
  """
  expected, schema = config['expected'], config['results_schema']
  retrieve = task_type == 'retrieve'
  try:
    data = _read_data(
        expected.get('retrieved_data'), schema, places, expected=True
    )
  except ValueError as error:
    return Verdict('error', f'The expected answer cannot be read: {error}')
  response = _response(answer)
  if not isinstance(response, dict):
    return Verdict('failure')
  try:
    right = _same_words(expected, response)
    got = None
    if retrieve:
      raw = response.get('retrieved_data')
      got = _read_data(raw, schema, places, expected=False)
  except ValueError as error:
    return Verdict('error', f'The answer cannot be read: {error}', answer=True)
  # There, a key that the task does not name is one that the answer lacks.
  right = right and 'retrieved_data' in expected
  if retrieve:
    ordered = config.get('ordered', False)
    right = right and values.same(data, got, places, ordered=ordered)
  return Verdict('success' if right else 'failure')


def _response(answer: Any) -> Any:
  """The JSON value of a response; it may stand in a fenced block."""
  if not isinstance(answer, str):
    return answer
  fenced = _FENCE.search(answer)
  text = (fenced[1] if fenced else answer).strip()
  try:
    return json.loads(text)
  except (ValueError, RecursionError):
    return text


def _same_words(expected: Mapping[str, Any], response: dict[str, Any]) -> bool:
  """True if task type and status are the expected ones.

  Raises:
    ValueError: one is no text.
  """
  right = True
  for name in ('task_type', 'status'):
    key = name
    if name == 'task_type' and name not in response:
      key = 'performed_operation'  # its name in older files
    if key not in response:
      right = False
      continue
    if not isinstance(response[key], str):
      raise ValueError(f'{key} is no text.')
    want, got = (
        values.read('string', text.strip(), _GIVEN, expected=False)
        for text in (expected[name], response[key])
    )
    right = (
        right and bool(response[key].strip()) and values.same(want, got, _GIVEN)
    )
  return right


def _read_data(
    raw: Any, schema: Mapping[str, Any], places: Places, *, expected: bool
) -> tuple[Any, ...] | None:
  if not raw and not isinstance(raw, (int, float)):
    return None
  listed = raw if isinstance(raw, (list, tuple)) else (raw,)
  return values.read_list(listed, schema, places, expected=expected) or None


# --- the requests


def of_requests(
    config: Mapping[str, Any],
    places: Places,
    entries: Sequence[Entry],
    task_type: str,
) -> bool:
  """True if the expected request was made; or was not, where it must not be.

  Args:
    config: a NetworkEventEvaluator of a task.
    places: the task's sites.
    entries: the requests, in order.
    task_type: of the task.

  Raises:
    ValueError: the task or a request's address cannot be read.
  """
  wanted = {'http_method': 'GET', 'response_status': 200, **config['expected']}
  expected = _read_expected(wanted, config, places)
  candidates = _candidates(wanted, config, places, entries, task_type)
  if config.get('should_not_exist', False):
    return not candidates
  if config.get('last_event_only', True):
    candidates = candidates[-1:]
  return any(
      values.same(
          expected, _read_entry(wanted, config, places, x), places, more=True
      )
      for x in candidates
  )


def _candidates(
    wanted: Mapping[str, Any],
    config: Mapping[str, Any],
    places: Places,
    entries: Sequence[Entry],
    task_type: str,
) -> list[Entry]:
  """The requests that are compared: of the same address and method."""
  entries = [entry for entry in entries if events.counts(entry)]
  if task_type == 'navigate' and wanted['http_method'] == 'GET':
    return [x for x in entries if events.is_navigation(x)][-1:]
  bases = _expected_urls(wanted['url'], config, places).options
  referer = (wanted.get('headers') or {}).get('referer')
  came = _expected_urls(referer, config, places).options if referer else ()
  candidates = []
  for entry in entries:
    if events.method(entry).lower() != wanted['http_method'].lower():
      continue
    url = _url(events.url_of(entry), config, places)
    if not any(addresses.same_base(x, url, places) for x in bases):
      continue
    sent = events.headers(entry).get('referer', '').lower()
    if came and sent:
      before = _url(sent, config, places)
      if not any(addresses.same_base(x, before, places) for x in came):
        continue
    candidates.append(entry)
  return candidates


def _read_expected(
    wanted: Mapping[str, Any], config: Mapping[str, Any], places: Places
) -> dict[str, Any]:
  """The values that a request must have."""
  read = {
      'url': _expected_urls(
          wanted['url'], config, places, wanted.get('query_params')
      ),
      'http_method': wanted['http_method'],
      'response_status': wanted['response_status'],
  }
  if wanted.get('headers') is not None:
    read['headers'] = _read_headers(
        wanted['headers'], config, places, expected=True
    )
  schema = config.get('post_data_schema') or {}
  if wanted.get('post_data'):
    read['post_data'] = values.read_object(
        wanted['post_data'], schema, places, expected=True
    )
  if wanted.get('response_content'):
    read['response_content'] = wanted['response_content']
  if wanted.get('response_cookies'):
    read['response_cookies'] = _strings(
        wanted['response_cookies'], expected=True
    )
  return read


def _read_entry(
    wanted: Mapping[str, Any],
    config: Mapping[str, Any],
    places: Places,
    entry: Entry,
) -> dict[str, Any]:
  """The values of a request; those that are asked for."""
  read: dict[str, Any] = {
      'url': values.Value('url', (_url(events.url_of(entry), config, places),)),
      'http_method': events.method(entry),
      'response_status': events.status(entry),
  }
  if wanted.get('headers'):
    sent = events.headers(entry)
    headers = {
        name: sent[name.lower()]
        for name in wanted['headers']
        if name.lower() in sent
    }
    if headers:
      read['headers'] = _read_headers(headers, config, places, expected=False)
  if wanted.get('post_data'):
    fields = _picked(
        events.posted(entry),
        wanted['post_data'],
        config.get('ignored_post_data_params_patterns') or (),
    )
    schema = config.get('post_data_schema') or {}
    read['post_data'] = fields and values.read_object(
        fields, schema, places, expected=False
    )
  if wanted.get('response_content'):
    fields = _picked(events.answered(entry), wanted['response_content'])
    read['response_content'] = fields and {
        name: value
        for name, value in fields.items()
        if value is not None or events.is_path(name)
    }
  if wanted.get('response_cookies'):
    set_ = events.cookies(entry)
    cookies = {k: set_[k] for k in wanted['response_cookies'] if k in set_}
    read['response_cookies'] = (
        _strings(cookies, expected=False) if cookies else None
    )
  return read


def _picked(
    fields: dict[str, Any] | None,
    names: Mapping[str, Any],
    ignored: Sequence[str] = (),
) -> dict[str, Any] | None:
  """The fields at the expected names and paths."""
  if not fields:
    return None
  fields = {
      name: value
      for name, value in fields.items()
      if not any(re.search(pattern, name) for pattern in ignored)
  }
  return {
      name: (
          events.at(fields, name) if events.is_path(name) else fields.get(name)
      )
      for name in map(str.strip, names)
  }


def _strings(strings: Mapping[str, str], *, expected: bool) -> dict[str, Any]:
  return {
      name: values.read('string', value, _GIVEN, expected=expected)
      for name, value in strings.items()
  }


def _read_headers(
    headers: Mapping[str, str],
    config: Mapping[str, Any],
    places: Places,
    *,
    expected: bool,
) -> dict[str, Any]:
  read = {}
  for name, value in headers.items():
    if name == 'referer' and value:
      read[name] = (
          _expected_urls(value, config, places)
          if expected
          else values.Value('url', (_url(value, config, places),))
      )
    else:
      value = places.derendered(value) or value
      read[name] = values.read('string', value, _GIVEN, expected=expected)
  return read


def _expected_urls(
    listed: str | Sequence[str],
    config: Mapping[str, Any],
    places: Places,
    query: Mapping[str, Sequence[str]] | None = None,
) -> values.Value:
  """The expected address, or several that are as right."""
  if isinstance(listed, str):
    listed = [listed]
  elif len(listed) < 2:
    raise ValueError('A list of addresses has two or more.')
  urls = (
      addresses.parse(each, places, _rules(config), query=query, expected=True)
      for each in listed
  )
  return values.Value(
      'url', tuple(_by_schema(each, config, expected=True) for each in urls)
  )


def _url(text: str, config: Mapping[str, Any], places: Places) -> Address:
  address = addresses.parse(text, places, _rules(config), expected=False)
  return _by_schema(address, config, expected=False)


def _rules(config: Mapping[str, Any]) -> Rules:
  return Rules(
      ignored=config.get('ignored_query_params') or (),
      patterns=config.get('ignored_query_params_patterns') or (),
      base64=config.get('decode_base64_query', False),
  )


def _by_schema(
    address: Address, config: Mapping[str, Any], *, expected: bool
) -> Address:
  schema = config.get('query_params_schema')
  if not schema or not address.query:
    return address
  query = values.read_object(
      dict(address.query), schema, _GIVEN, expected=expected
  )
  return dataclasses.replace(address, query=query)
