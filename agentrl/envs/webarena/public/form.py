"""A task's record in the two forms of file, and its checks.

What an evaluator does not know is refused here, when the file is read, and not
after an episode.
"""

import dataclasses
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentrl.envs.webarena.public import events, helpers, sites, values
from agentrl.errors import ConfigError

_RAW_TYPES = ('string_match', 'url_match', 'program_html')
_RAW_ANSWERS = ('exact_match', 'must_include', 'fuzzy_match')
_EVALUATORS = ('AgentResponseEvaluator', 'NetworkEventEvaluator')
_TYPES = ('retrieve', 'mutate', 'navigate')
_PLACEHOLDER = re.compile(r'__([A-Z]+(?:_[A-Z]+)*)__')
# Hosts of Git over SSH are not compared.
_NO_SITE = ('SSH_HOST',)


@dataclasses.dataclass(frozen=True)
class PublicTask:
  """A task of the benchmark, with placeholders in place of sites' URLs.

  Attributes:
    id: its number, 0 to 811.
    sites: that it needs, names in `sites.VARIABLES`.
    intent: what is to be done.
    template_id: tasks of one template differ in values alone.
    addresses: where it begins; several are as many tabs.
    raw: whether `evals` is the original's.
    evals: how it is graded, as in its file: the original's `eval` or
      webarena-verified's.
  """

  id: int
  sites: tuple[str, ...]
  intent: str
  template_id: int
  addresses: tuple[str, ...]
  raw: bool
  evals: tuple[Mapping[str, Any], ...]

  @property
  def needs_judge(self) -> bool:
    """True if its answer is compared by meaning."""
    if not self.raw:
      return False
    answers = self.evals[0]['reference_answers'] or {}
    return 'fuzzy_match' in answers


def read(record: Any, *, raw: bool, path: pathlib.Path) -> PublicTask:
  """Reads a record of a task file.

  Args:
    record: a JSON object.
    raw: it is the original's form, else webarena-verified's.
    path: of the file, for errors.

  Raises:
    ConfigError: it has another form, or asks for something unknown.
  """
  name = f'{path.name}: task {_id(record)}'
  try:
    task = _raw(record) if raw else _verified(record)
    _check_raw(task) if raw else _check_verified(task)
  except KeyError as error:
    other = 'verified' if raw else 'raw'
    raise ConfigError(
        f'{name} has no {error}; is it a file of the {other} form?'
    ) from error
  except (TypeError, AttributeError, IndexError) as error:
    raise ConfigError(f'{name} has another form: {error}.') from error
  except ValueError as error:
    raise ConfigError(f'{name}: {error}') from error
  return task


def _id(record: Any) -> Any:
  return record.get('task_id', '?') if isinstance(record, dict) else '?'


def _raw(record: Mapping[str, Any]) -> PublicTask:
  return PublicTask(
      id=_whole(record['task_id']),
      sites=_sites(record),
      intent=_text(record['intent']),
      template_id=_whole(record['intent_template_id']),
      addresses=tuple(_text(record['start_url']).split(' |AND| ')),
      raw=True,
      evals=(record['eval'],),
  )


def _verified(record: Mapping[str, Any]) -> PublicTask:
  return PublicTask(
      id=_whole(record['task_id']),
      sites=_sites(record),
      intent=_text(record['intent']),
      template_id=_whole(record['intent_template_id']),
      addresses=tuple(map(_text, record['start_urls'])),
      raw=False,
      evals=tuple(record['eval']),
  )


def _sites(record: Mapping[str, Any]) -> tuple[str, ...]:
  """The sites that a record names, and those whose placeholders it has."""
  named = list(record['sites'])
  for text in _texts(record):
    for name in _PLACEHOLDER.findall(text):
      if name not in _NO_SITE:
        named.append(name.lower())
  for site in named:
    if site not in sites.VARIABLES:
      raise ValueError(
          f'unknown site {site!r}; known: {", ".join(sites.VARIABLES)}.'
      )
  if not named:
    raise ValueError('it names no site.')
  return tuple(dict.fromkeys(named))


def _texts(value: Any) -> Iterator[str]:
  if isinstance(value, str):
    yield value
  elif isinstance(value, (list, dict)):
    for each in value.values() if isinstance(value, dict) else value:
      yield from _texts(each)


def _whole(value: Any) -> int:
  if not isinstance(value, int):
    raise ValueError(f'{value!r} is no whole number.')
  return value


def _text(value: Any) -> str:
  if not isinstance(value, str) or not value:
    raise ValueError(f'{value!r} is no text.')
  return value


def _known(value: Any, choices: Sequence[str], what: str) -> None:
  if value not in choices:
    raise ValueError(f'unknown {what} {value!r}; known: {", ".join(choices)}.')


def _check_raw(task: PublicTask) -> None:
  config = task.evals[0]
  if not config['eval_types']:
    raise ValueError('it is graded by nothing.')
  for each in config['eval_types']:
    _known(each, _RAW_TYPES, 'evaluator')
  answers = config['reference_answers']
  if 'string_match' in config['eval_types']:
    for how, wanted in (answers or {}).items():
      _known(how, _RAW_ANSWERS, 'comparison')
      _wanted(how, wanted)
    if not answers:
      raise ValueError('string_match has no reference answers.')
  if 'url_match' in config['eval_types']:
    _text(config['reference_url'])
    _known(config.get('url_note', 'GOLD in PRED'), ('GOLD in PRED',), 'rule')
  for check in config['program_html']:
    if check['url'].startswith('func:'):
      helpers.check_address(check['url'])
    if check['locator'].startswith('func:'):
      helpers.check_locator(check['locator'])
    elif check['locator'].strip():
      _known(
          check['locator'].partition('document.')[0], ('', '[...'), 'locator'
      )
    wanted = check['required_contents']
    if not {'exact_match', 'must_include'} & wanted.keys():
      raise ValueError(f'unknown required contents {list(wanted)}.')
    for how, each in wanted.items():
      _wanted(how, each)


def _wanted(how: str, wanted: Any) -> None:
  """Refuses what a comparison of the original cannot compare with."""
  if how == 'exact_match' or wanted == 'N/A':
    _text(wanted)
  elif not isinstance(wanted, list) or not wanted:
    # A text would be taken for its letters.
    raise ValueError(f'{how} needs a list of texts, got {wanted!r:.80}.')
  else:
    for each in wanted:
      _text(each)


def _check_verified(task: PublicTask) -> None:
  kinds = [config['evaluator'] for config in task.evals]
  if kinds.count(_EVALUATORS[0]) != 1:
    raise ValueError(f'it needs one {_EVALUATORS[0]}.')
  for config in task.evals:
    _known(config['evaluator'], _EVALUATORS, 'evaluator')
    expected = config['expected']
    if config['evaluator'] == _EVALUATORS[0]:
      _known(expected['task_type'].lower(), _TYPES, 'task type')
      _text(expected['status'])
      schemas = [config['results_schema'].get('items', {})]
    else:
      if not expected['url']:
        raise ValueError('an expected request has no address.')
      for fields in ('post_data', 'response_content'):
        for key in expected.get(fields) or ():
          if events.is_path(key):
            events.check_path(key)
      names = ('query_params_schema', 'post_data_schema')
      schemas = [config.get(name) or {} for name in names]
    for schema in schemas:
      _check_schema(schema)


def _check_schema(schema: Mapping[str, Any]) -> None:
  kind = values.kind_of(schema)
  if kind == 'object':
    for each in schema.get('properties', {}).values():
      _check_schema(each)
  elif kind == 'array':
    _check_schema(schema.get('items', {}))
  else:
    _known(kind, tuple(values.KINDS), 'format')
