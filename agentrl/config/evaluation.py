"""An evaluation as its config means it: which policies, on which panels.

`model.name` lists policies and `env.name` environments, separated by `;`;
`eval.panels` has panels of several environments, each with its own split and
size. What a run brings (how it is asked, its limits, how its environment shows
itself) holds for that run alone; the tasks are the same for all policies, and
those of the first run where the command leaves them open.
"""

import copy
import dataclasses
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ml_collections import ConfigDict

from agentrl import envs
from agentrl.config import mixture, resume
from agentrl.config.modes import Evaluate, Learning
from agentrl.envs import ENVS
from agentrl.errors import ConfigError
from agentrl.fields import get
from agentrl.inference.options import API, MAX_TEMPERATURE
from agentrl.runtime import workdir as workdir_lib

_SEPARATOR = ';'
# Policies as sources that act in an environment without a model.
EXPERT, RANDOM = 'expert', 'random'
MODEL = 'model'  # whose weights are loaded here
# Of a panel; the same for all policies.
_SHARED = tuple(
    f'eval.{name}'
    for name in ('num_tasks', 'split', 'task_file', 'seed', 'samples')
) + ('eval.horizon', 'env.name')
_MOST_CHARS = 64  # of a name, which is part of a path


class Evaluated(NamedTuple):
  """A policy of an evaluation, before it is opened.

  Attributes:
    name: unique in the evaluation, short, and fit for a path.
    kind: 'model', 'server', 'api', 'expert' or 'random'.
    source: as the command names it.
    configs: one a panel; they differ in `env` and `eval` alone.
  """

  name: str
  kind: str
  source: str
  configs: tuple[Evaluate, ...]


def read(
    config: ConfigDict, told: Mapping[str, Mapping[str, Any]] | None = None
) -> tuple[Evaluated, ...]:
  """The policies of an evaluation, each with its checked config of each panel.

  Args:
    config: of mode 'evaluate'.
    told: what servers and endpoints tell of how their policies were trained, by
      the names that `config.model.name` has for them: sections as a run's.

  Raises:
    ConfigError: a field is wrong, a policy or an environment is listed twice,
      or runs bring panels that differ.
  """
  sources = split('model.name', config.model.name)
  told = told or {}
  runs = {source: _run_of(source, told.get(source)) for source in sources}
  lead = next(filter(None, runs.values()), {})
  panels = tuple(_panels(config, lead))
  brought = ('env', 'eval', 'mixture')
  shared = {name: lead[name] for name in brought if name in lead}
  served = any(kind_of(source) == 'server' for source in sources)
  policies = []
  # An endpoint is better known by its model.
  labels = [config.api.model or x if x == API else x for x in sources]
  for name, source in zip(names(labels), sources, strict=True):
    kind, run = kind_of(source), runs[source] or shared
    one = copy.deepcopy(config)
    one.model.name = source
    # What is about another policy has no effect on this one.
    if served and kind != 'server':
      one.model.tokenizer = None
    if API in sources and kind != API:
      one.api = {}
    configs = tuple(_read_one(one, panel, run) for panel in panels)
    policies.append(Evaluated(name, kind, source, configs))
  _check_panels(policies)
  return tuple(_at_temperatures(policies))


def whole(config: ConfigDict, evaluated: Sequence[Evaluated]) -> Evaluate:
  """The first policy's config of the first panel, with the lists as they are.

  It is what a workdir keeps, and a dry run shows.
  """
  result = evaluated[0].configs[0]
  if result.eval.panels or len(evaluated[0].configs) > 1:
    each = [x.env for x in evaluated[0].configs]
    env = dataclasses.replace(
        result.env,
        name=_SEPARATOR.join(x.name for x in each),
        options={x.name: x.options for x in each},
    )
    result = dataclasses.replace(result, env=env)
  model = dataclasses.replace(result.model, name=config.model.name)
  api = [x.configs[0].api for x in evaluated if x.kind == API] or [result.api]
  result = dataclasses.replace(result, model=model, api=api[0])
  if not result.eval.temperatures:
    return result
  return _at(result, config.eval.temperature, config.api.temperature)


def _at_temperatures(policies: Sequence[Evaluated]) -> Iterator[Evaluated]:
  """The policies; what is sampled, once for each of several temperatures."""
  temperatures = policies[0].configs[0].eval.temperatures
  if len(set(temperatures)) < len(temperatures):
    raise ConfigError(f'eval.temperatures={temperatures} repeats one.')
  sampled = [item for item in policies if item.kind not in (EXPERT, RANDOM)]
  if temperatures and not sampled:
    raise ConfigError(
        f'eval.temperatures={temperatures} has no effect: none of the policies'
        ' is sampled.'
    )
  kinds = [item.kind for item in sampled]
  if API in kinds and max(temperatures, default=0) > MAX_TEMPERATURE:
    raise ConfigError(
        f'eval.temperatures={temperatures}: an endpoint takes'
        f' {MAX_TEMPERATURE:g} at most.'
    )
  for item in policies:
    if not temperatures or item not in sampled:
      yield item
      continue
    for value in temperatures:
      yield item._replace(
          name=f'{item.name}-t{value:.12g}',
          configs=tuple(_at(x, value, value) for x in item.configs),
      )


def _at(config: Evaluate, temperature: float, of_api: float | None) -> Evaluate:
  """A config with these temperatures."""
  return dataclasses.replace(
      config,
      eval=dataclasses.replace(config.eval, temperature=temperature),
      api=dataclasses.replace(config.api, temperature=of_api),
  )


def kind_of(source: str) -> str:
  """The kind of a policy by its source."""
  if source in (API, EXPERT, RANDOM):
    return source
  return 'server' if source.startswith(('http://', 'https://')) else MODEL


def names(sources: Sequence[str]) -> tuple[str, ...]:
  """Short names, fit for a path, one for each source and all different."""
  parts = [_parts(source) for source in sources]
  for count in range(1, max(map(len, parts)) + 1):
    candidates = ['-'.join(part[-count:])[-_MOST_CHARS:] for part in parts]
    candidates = [name.lstrip('-.') or 'policy' for name in candidates]
    # File systems may take upper and lower case for the same.
    if len({name.lower() for name in candidates}) == len(candidates):
      return tuple(candidates)
  return tuple(f'{i}-{name}' for i, name in enumerate(candidates, 1))


def _parts(source: str) -> list[str]:
  """The words of a source, the last of them the most telling."""
  if kind_of(source) == 'server':
    words = [source.partition('://')[2]]
  else:
    path = pathlib.PurePath(source.removesuffix('.gguf'))
    words = [part for part in path.parts if part not in ('/', '.', '..')]
    if workdir_lib.run_of(source) and path.parent.name == 'checkpoints':
      *words, run, _, number = ['run', *words]
      words.append(f'{run}-{number}')
  words = [re.sub(r'[^A-Za-z0-9._]+', '-', word).strip('-.') for word in words]
  return [word for word in words if word] or ['policy']


def split(path: str, text: str) -> tuple[str, ...]:
  """The entries of a list `A;B`.

  Args:
    path: of the field, for messages.
    text: its value.

  Raises:
    ConfigError: an entry is empty, or there twice.
  """
  entries = tuple(part.strip() for part in text.split(_SEPARATOR))
  if not all(entries):
    raise ConfigError(f'{path}={text!r} has an empty entry; leave out a ";".')
  for entry in entries:
    if entries.count(entry) > 1:
      raise ConfigError(
          f'{path}={text!r} names {entry!r} twice; once is enough.'
      )
  return entries


def _run_of(
    source: str, told: Mapping[str, Any] | None
) -> dict[str, Any] | None:
  """The config of the run that a source is of, if it is of one."""
  run = dict(told) if told else None
  if kind_of(source) == 'model':
    run = resume.trained_with(source)
  if run and run.get('eval', {}).get('num_tasks') == 0:
    # It was trained without evaluations, which says nothing of a panel.
    rest = {k: v for k, v in run['eval'].items() if k != 'num_tasks'}
    run = run | {'eval': rest}
  return run


def _panels(
    config: ConfigDict, run: Mapping[str, Any]
) -> Iterator[Mapping[str, Any] | str | None]:
  """A panel's values, or the name of an environment; None: a run's, or ours."""
  panels, name = config.eval.panels, config.env.name
  if panels and name:
    raise ConfigError(
        f'eval.panels names its environments, and so does env.name={name!r}:'
        ' leave one of them out.'
    )
  if not panels:
    own = mixture.environments(run) or (None,)
    entries = split('env.name', name) if name else own
  else:
    entries = panels
    for panel in panels:
      _check_panel(panel)
    split('eval.panels', _SEPARATOR.join(x['env']['name'] for x in panels))
  if len(entries) > 1 and config.env.url:
    raise ConfigError(
        'env.url names servers of one environment, and there are'
        f' {len(entries)}; leave it out, or give each panel of eval.panels its'
        ' own.'
    )
  yield from entries


def _check_panel(panel: Any) -> None:
  """Refuses what is not `{'env': {...}, 'eval': {...}}` of fields of a panel."""
  sections = panel if isinstance(panel, Mapping) else {}
  paths = {
      path for path in Evaluate.BROUGHT if path.startswith(('env', 'eval'))
  }
  wrong = sections.keys() - {'env', 'eval'}
  for section in {'env', 'eval'} & sections.keys():
    inner = sections[section]
    inner = inner if isinstance(inner, Mapping) else {'': inner}
    wrong |= {f'{section}.{x}' for x in inner if f'{section}.{x}' not in paths}
  if wrong:
    raise ConfigError(
        f'A panel of eval.panels has {", ".join(sorted(map(str, wrong)))};'
        f' known: {", ".join(sorted(paths))}.'
    )
  name = sections.get('env', {}).get('name')
  if not isinstance(name, str) or not name:
    raise ConfigError(
        'A panel of eval.panels is a dict with an environment,'
        " {'env': {'name': ...}, 'eval': {...}}; got "
        + f'{panel!r}.'
    )


def _read_one(
    config: ConfigDict,
    panel: Mapping[str, Any] | str | None,
    run: Mapping[str, Any],
) -> Evaluate:
  """The config of one policy on one panel."""
  one = copy.deepcopy(config)
  one.eval.panels = ()
  if isinstance(panel, Mapping):
    name = panel['env']['name']
    run = _under(panel, mixture.in_environment(run, name))
  else:
    one.env.name = name = panel
    run = mixture.in_environment(run, name)
  others = split('env.name', config.env.name) if config.env.name else ()
  others += tuple(x['env']['name'] for x in config.eval.panels)
  for option in [x for x in one.env.options if len(others) > 1]:
    # An option is for those of the environments that have it.
    owners = [x for x in others if x in ENVS and option in envs.get(x).options]
    if owners and name not in owners:
      one.env.options[option] = None
  result = resume.read_config(one, run)
  if not config.eval.panels:
    return result
  return dataclasses.replace(
      result, eval=dataclasses.replace(result.eval, panels=config.eval.panels)
  )


def _under(panel: Mapping[str, Any], run: Mapping[str, Any]) -> dict[str, Any]:
  """The values that a policy brings to a panel: of a run all but its tasks."""
  env, before = dict(panel['env']), run.get('env', {})
  if before.get('name') == env['name']:
    of_tasks = envs.get(env['name']).task_options
    options = {
        name: value
        for name, value in before.get('options', {}).items()
        if name not in of_tasks
    }
    env = before | env | {'options': options | dict(env.get('options', {}))}
  return {**run, 'env': env, 'eval': panel.get('eval', {})}


def _check_panels(evaluated: Sequence[Evaluated]) -> None:
  """Refuses policies that would play different tasks."""
  first, *others = evaluated
  for other in others:
    for one, another in zip(first.configs, other.configs, strict=True):
      values = [
          {path: get(x, path) for path in _SHARED} for x in (one, another)
      ]
      for config, options in zip((one, another), values, strict=True):
        options |= task_options(config)
      wrong = [x for x in values[0] if values[0][x] != values[1].get(x)]
      if wrong:
        raise ConfigError(
            f'{first.source} and {other.source} would play different panels: '
            + ', '.join(
                f'{x}={values[0][x]!r} and {values[1].get(x)!r}' for x in wrong
            )
            + f'. Say which, as in --config.{wrong[0]}=VALUE.'
        )


def task_options(config: Learning | Evaluate) -> dict[str, Any]:
  """The options that choose tasks, by their paths."""
  chosen = envs.get(config.env.name).task_options
  return {
      f'env.options.{name}': config.env.options.get(name) for name in chosen
  }
