"""Mixtures: one run over several environments.

`config.mixture.NAME` is a member: its weight, and what differs from the run's
own sections `env`, `agent`, `tasks`, `horizon`, `rollout` and `eval`. The rest of
those is inherited, with three exceptions: another environment takes over no
options, servers and task files, and no stages of tasks, and another kind of
horizon no turns.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ml_collections import ConfigDict

from agentrl import errors, fields
from agentrl.config import build, reading, resume
from agentrl.config.build import MIXTURE, Leaf
from agentrl.config.modes import Train, flat
from agentrl.config.sections import Eval, HorizonOptions, TaskOptions
from agentrl.envs.options import TrainEnvOptions
from agentrl.errors import ConfigError
from agentrl.fields import Meaning
from agentrl.rollout.options import AgentOptions, Limits

_WEIGHT = Leaf(
    'weight',
    float,
    1.0,
    Meaning(
        "its part of a step's tasks, and of the expert's episodes; 0: it is"
        ' evaluated alone',
        ge=0,
        le=1e6,
    ),
)
_SECTIONS: Mapping[str, type] = {
    'env': TrainEnvOptions,
    'agent': AgentOptions,
    'tasks': TaskOptions,
    'horizon': HorizonOptions,
    'rollout': Limits,
    'eval': Eval,
}
_OF_THE_RUN = ('rollout.save_tokens',)  # one file a step
# Of another environment they would be wrong.
_OF_ENV = ('options', 'url', 'token_file', 'retry_s', 'task_file')
_OPTIONS = 'env.options'
_OPTION = Leaf('', Any, None, Meaning('an option of its environment'))
_SECTION = Leaf('', dict, None, Meaning("a dict, over the run's section"))
_NAME = re.compile(r'[A-Za-z][A-Za-z0-9_]*')
# Their metrics would stand among those of the run.
_TAKEN = ('eval', 'policy', 'rollout', 'sampler', 'time', 'train')


class Member(NamedTuple):
  """An environment of a run.

  Attributes:
    name: '' where the run has one alone.
    weight: of its tasks among those of all members.
    config: the run's, with the sections of this member.
  """

  name: str
  weight: float
  config: Train


def read(config: ConfigDict, workdir: str | None = None) -> Train:
  """The checked config of a run; of a mixture, all its members are checked.

  Args:
    config: of mode 'train'.
    workdir: see `resume.read`.

  Raises:
    ConfigError: names the member, the field, the value and the way out.
  """
  result = resume.read(config, workdir)
  if not result.mixture:
    return result
  mixture = {
      name: _nested(_flat(name, values))
      for name, values in sorted(result.mixture.items())
  }
  result = dataclasses.replace(result, mixture=mixture)
  members(result)
  return result


def members(config: Train) -> tuple[Member, ...]:
  """The environments of a run, by name; one without a name if it has one.

  Raises:
    ConfigError: as `read`.
  """
  if not config.mixture:
    return (Member('', 1.0, config),)
  entries = []
  for name, member in config.mixture.items():
    values = dict(_flat(name, member))
    weight = values.pop('weight')
    with errors.of_member(name):
      fields.check('weight', weight, _WEIGHT.meaning)
      inner = reading.replace_sections(config, _inherit(config, values))
      if inner.rollout.max_context > config.rollout.max_context:
        raise ConfigError(
            f'rollout.max_context={inner.rollout.max_context} exceeds the'
            f" run's {config.rollout.max_context}, which its engine and its"
            ' updates are made for: raise --config.rollout.max_context.'
        )
      attempts = config.agent.reflect.attempts
      if inner.agent.reflect.attempts != attempts:
        raise ConfigError(
            f'agent.reflect.attempts={inner.agent.reflect.attempts}, and the'
            f' run has {attempts}: groups of a run have one size. Set'
            ' --config.agent.reflect.attempts.'
        )
      shorter = inner.rollout.max_context < config.rollout.max_context
      if config.algo.overlong_buffer and shorter:
        raise ConfigError(
            'algo.overlong_buffer has no effect here: it lowers returns near'
            f" the run's rollout.max_context={config.rollout.max_context}."
            " Leave out the member's own."
        )
    entries.append(Member(name, weight, inner))
  if config.checkpoint.keep_best:
    raise ConfigError(
        'checkpoint.keep_best compares evaluations on one panel, and a mixture'
        ' has one a member: leave it out, and keep more by checkpoint.keep.'
    )
  if not any(member.weight for member in entries):
    raise ConfigError(
        'The weights of the mixture sum to 0: nothing would be played. Give'
        f' one of {", ".join(config.mixture)} a weight above 0.'
    )
  return tuple(entries)


def environments(run: Mapping[str, Any]) -> tuple[str, ...]:
  """The environments of a recorded run that was of a mixture, each once."""
  members = run.get(MIXTURE) or {}
  names = (_name(run, members[name]) for name in sorted(members))
  return tuple(dict.fromkeys(names))


def in_environment(
    run: Mapping[str, Any], name: str | None
) -> Mapping[str, Any]:
  """A recorded run as its first member in an environment had it.

  Without such a member it is as it was.
  """
  members = run.get(MIXTURE) or {}
  matches = (x for x in sorted(members) if _name(run, members[x]) == name)
  member = next(matches, None)
  return run if member is None else of_member(run, member)


def of_member(run: Mapping[str, Any], name: str) -> Mapping[str, Any]:
  """A recorded run with the sections of one of its members in place of its own."""
  member = run[MIXTURE][name]
  sections = {x: {**run[x], **member.get(x, {})} for x in _SECTIONS if x in run}
  env, own = sections['env'], member.get('env', {})
  if run['env'].get('name') == env.get('name'):
    env['options'] = run['env'].get('options', {}) | own.get('options', {})
  else:
    sections['env'] = {
        k: v for k, v in env.items() if k in own or k not in _OF_ENV
    }
    if 'task_file' not in member.get('eval', {}):
      sections.get('eval', {}).pop('task_file', None)
  return {**run, **sections}


def _name(run: Mapping[str, Any], member: Mapping[str, Any]) -> str:
  return member.get('env', {}).get('name', run['env']['name'])


def leaves(name: str = 'NAME') -> dict[str, Leaf]:
  """The fields of a member by their paths in the config."""
  table = {'weight': _WEIGHT}
  for path, leaf in build.leaves('train').items():
    section, _, field = path.partition('.')
    if path not in _OF_THE_RUN and section in _SECTIONS:
      own_fields = {
          item.name for item in dataclasses.fields(_SECTIONS[section])
      }
      if field.partition('.')[0] in own_fields:
        table[path] = leaf
  start = f'{MIXTURE}.{name}.'
  return {
      start + path: dataclasses.replace(leaf, path=start + path)
      for path, leaf in table.items()
  }


def leaf_at(path: str) -> Leaf | None:
  """The field or section of a member at this path, if there is one."""
  if not path.startswith(f'{MIXTURE}.'):
    return None
  _, name, *rest = path.split('.')
  inner = '.'.join(rest)
  if inner in ('', _OPTIONS, *_SECTIONS):
    return _SECTION
  if inner.startswith(f'{_OPTIONS}.') and len(rest) == 3:
    return _OPTION
  table = leaves(name)
  if any(x.startswith(f'{path}.') for x in table):  # as agent.context
    return _SECTION
  return table.get(path)


def refuse(path: str) -> ConfigError:
  """The error about a path that is no field of a member."""
  _, name, *rest = path.split('.')
  inner = '.'.join(rest)
  table = build.leaves('train')
  if inner in table or any(x.startswith(f'{inner}.') for x in table):
    return ConfigError(
        f'{path} has no effect: {inner} is of the whole run. A member has'
        f' weight, {", ".join(_SECTIONS)}; see --fields={MIXTURE}.'
    )
  if len(rest) == 1:
    return ConfigError(
        f'Unknown field {path}; known: weight, {", ".join(_SECTIONS)}.'
    )
  reason = build.unknown(inner, 'train')
  return ConfigError(f'{MIXTURE}.{name}: {reason}')


def no_member(name: str, mixture: Mapping[str, Any]) -> ConfigError:
  """The error about a field of a member that is not in the mixture."""
  return ConfigError(
      f'The mixture has no member {name!r}; it has'
      f' {", ".join(mixture) or "none"}. A new one is a dict:'
      f" --config.{MIXTURE}.{name}=\"{{'env': {{'name': ...}}}}\"."
  )


def _flat(name: str, member: Any) -> dict[str, Any]:
  """The values of a member by their paths in it, converted; with its weight."""
  if not _NAME.fullmatch(name) or name in _TAKEN or hasattr(ConfigDict, name):
    raise ConfigError(
        f'A member cannot be called {name!r}: take letters, digits and _, and'
        f' none of {", ".join(_TAKEN)}, which metrics are called.'
    )
  start = f'{MIXTURE}.{name}.'
  values = {'weight': _WEIGHT.default}
  for path, value in _walk(start.removesuffix('.'), member):
    leaf = leaf_at(path)
    assert leaf is not None  # `_walk` has asked
    value = fields.convert(path, value, leaf.kind, leaf.meaning)
    values[path.removeprefix(start)] = value
  return values


def _walk(path: str, values: Any) -> Iterator[tuple[str, Any]]:
  """Paths and values of the fields below a section."""
  if not isinstance(values, Mapping):
    choices = ('weight', *_SECTIONS)
    raise ConfigError(fields.no_section(path, values, choices))
  for name, value in values.items():
    inner = f'{path}.{name}'
    leaf = leaf_at(inner)
    if leaf is None:
      raise refuse(inner)
    if leaf is _SECTION:
      yield from _walk(inner, value)
    else:
      yield inner, value


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
  """Values by paths as dicts in dicts."""
  tree: dict[str, Any] = {}
  for path, value in values.items():
    *parents, name = path.split('.')
    section = tree
    for part in parents:
      section = section.setdefault(part, {})
    section[name] = value
  return tree


def _inherit(config: Train, values: Mapping[str, Any]) -> dict[str, Any]:
  """All values of a member's sections: its own over the run's."""
  result: dict[str, Any] = {}
  for section in _SECTIONS:
    part = dataclasses.asdict(getattr(config, section))
    # Options may be dicts; a section in a section is none.
    result |= flat(part, {_OPTIONS}, f'{section}.')
  options = result.pop(_OPTIONS)
  if values.get('env.name', config.env.name) == config.env.name:
    result |= {f'{_OPTIONS}.{name}': value for name, value in options.items()}
  else:
    for name in _OF_ENV:
      result.pop(f'env.{name}', None)
    result.pop('eval.task_file')
    result.pop('tasks.stages')
  if values.get('env.url'):  # servers that run have no children
    result.pop('env.workers')
  if values.get('horizon.kind', config.horizon.kind) != config.horizon.kind:
    result = {k: v for k, v in result.items() if not k.startswith('horizon.')}
  if values.get('tasks.order', config.tasks.order) != config.tasks.order:
    result = {k: v for k, v in result.items() if not k.startswith('tasks.')}
  result |= values
  # None: the environment's own.
  unset = lambda k, v: v is None and k.startswith(f'{_OPTIONS}.')
  return {k: v for k, v in result.items() if not unset(k, v)}
