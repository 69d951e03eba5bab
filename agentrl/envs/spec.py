"""The specification of an environment: how to make, serve and explain it."""

import contextlib
import dataclasses
import difflib
import importlib.util
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from agentrl import plugins, shipped
from agentrl.envs import prompts, random_rules
from agentrl.envs.base import EnvFactory
from agentrl.envs.blocks import View
from agentrl.envs.dialect import Dialect
from agentrl.envs.functions import Functions
from agentrl.envs.prompts import Words
from agentrl.errors import AgentrlError, ConfigError, EnvError, EnvFault

SPLITS = ('train', 'dev', 'test')


def is_set(value: Any) -> bool:
  """True for an option that names something, see `EnvSpec.unsafe_options`."""
  return value is not None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Program:
  """A program that an environment starts beside Python, for `doctor`.

  Attributes:
    name: in a word.
    find: gives what it says of itself, from the environment's options; raises
      EnvError where it does not run. Takes a few seconds at most.
    remedy: the command that installs it.
  """

  name: str
  find: Callable[[Mapping[str, Any]], str]
  remedy: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class EnvSpec:
  """An environment: how it is made, served, explained and split.

  Attributes:
    name: its name, in records and in AgentGym's item files.
    dialect: routes and field names of its server.
    words: the policy's instructions.
    open_factory: makes the factory of its environments from the options, and
      imports their packages only then: most processes never make one.
    list_tasks: the ids of a split, from its name and `task_options`.
    functions: its actions as functions, for formats that call them.
    options: names and defaults of its options.
    meanings: what an option is for, by its name, as `--fields` shows it.
    task_options: names of those that give ids their meaning: which tasks there
      are, the world of each, what counts as success. Evaluations under other
      values of them do not compare.
    machine_options: names of those that say how this machine runs it and
      change no episode, so that another machine starts it without them.
    unsafe_options: those that name files, programs or services, each with what
      is True of a value that does. The viewer starts no environment with one
      of them: it shows runs that need not be the reader's own.
    subtask: the kind of a task by its id, for tables by kind; None: all are of
      one kind.
    subtasks_of: gives `subtask` under options that give ids another meaning.
    stratum: a finer kind of a task by its id, which panels spread over too;
      None: a list that is in order within each kind.
    success: when an episode succeeds, in one sentence beside figures.
    data_version: which meaning its task ids have, from 1. Whatever changes the
      task of an id (its goal, its world, what counts as success) counts it up:
      evaluations of two versions do not compare.
    random_rule: how a policy that acts at random draws an action, see
      `random_rules`.
    view: what the viewer shows of an episode between two turns, as views.md
      beside this file says; None: its text, and its picture where it draws one.
    probe: an action that shows something and changes nothing: what it answers at
      each turn the viewer finds by playing an episode again. None: there is none.
    clusters_of: gives, under the options, the template of a task by its id,
      where tasks of one template succeed and fail together and a panel holds
      several: intervals then count templates, not tasks. None: each task
      counts, as where every panel has all of a few levels or pages, which are
      chosen and not drawn.
    element_of: the number of the element that an action names, or None: its
      place, which GET /boxes tells, is outlined in pictures. None: no action
      names one.
    refuses: whether an observation says that the action before it could not be
      done, for the viewer; None: none says so.
    packages: modules that `open_factory` imports and not every machine has.
    requirements: files that have them: names of those in
      third_party/requirements, or paths of one's own.
    slots_option: the option with the number of episodes that may run at once; None: as
      many as there are.
    programs: what it starts beside Python.
    conversations: whether its observations may be whole conversations, see
      `envs.conversation`.
    specialise: gives, from the options, fields of this value that they decide, such as
      `words` and `functions` of what others wrote; None: they decide none.
  """

  name: str
  dialect: Dialect
  words: Words
  open_factory: Callable[..., EnvFactory]
  list_tasks: Callable[..., Sequence[int]]
  functions: Functions = ()
  options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  meanings: Mapping[str, str] = dataclasses.field(default_factory=dict)
  task_options: tuple[str, ...] = ()
  machine_options: tuple[str, ...] = ()
  unsafe_options: Mapping[str, Callable[[Any], bool]] = dataclasses.field(
      default_factory=dict
  )
  subtask: Callable[[int], str] | None = None
  subtasks_of: Callable[..., Callable[[int], str]] | None = None
  stratum: Callable[[int], str] | None = None
  success: str = 'The environment says so.'
  clusters_of: Callable[..., Callable[[int], str] | None] | None = None
  data_version: int = 1
  random_rule: random_rules.Rule = random_rules.in_braces
  view: View | None = None
  probe: str | None = None
  element_of: Callable[[str], int | None] | None = None
  refuses: Callable[[str], bool] | None = None
  packages: tuple[str, ...] = ()
  requirements: tuple[str | pathlib.Path, ...] = ()
  slots_option: str | None = None
  programs: tuple[Program, ...] = ()
  conversations: bool = False
  specialise: Callable[..., Mapping[str, Any]] | None = None

  def __post_init__(self):
    if type(self.data_version) is not int or self.data_version < 1:
      raise ConfigError(
          f'{self.name}: data_version is a whole number from 1, not'
          f' {self.data_version!r}.'
      )
    of_options = (
        *self.meanings,
        *self.task_options,
        *self.machine_options,
        *self.unsafe_options,
        *filter(None, [self.slots_option]),
    )
    for name in of_options:
      if name not in self.options:
        raise ConfigError(f'{self.name}: there is no option {name!r}.')

  def under(self, **options: Any) -> 'EnvSpec':
    """This environment as these options make it, see `specialise`.

    Raises:
      ConfigError: an option is unknown or wrong.
    """
    checked = self.check_options(options)
    if self.specialise is None:
      return self
    with self._own_code('specialise'):
      return dataclasses.replace(self, **self.specialise(**checked))

  def open(self, **options: Any) -> EnvFactory:
    """The factory of its environments. Imports their packages only now.

    Raises:
      ConfigError: an option is unknown or wrong.
      EnvError: a package that it needs is missing, or its code fails.
    """
    checked = self.check_options(options)
    self.check_packages()
    with self._own_code('open_factory'):
      return self.open_factory(**checked)

  def check_packages(self) -> None:
    """Refuses a machine that lacks a package of this environment.

    Raises:
      EnvError: names the packages and their file.
    """
    missing = [x for x in self.packages if importlib.util.find_spec(x) is None]
    if missing:
      files = ' '.join(f'-r {file}' for file in self.requirement_files[:1])
      raise EnvError(
          f'{self.name} needs {", ".join(missing)}: pip install {files}'
      )

  @property
  def requirement_files(self) -> list[str]:
    """Paths of its requirements; ours are relative to the repository."""
    return [
        str(file)
        if isinstance(file, pathlib.Path) or '/' in file
        else shipped.requirements(file)
        for file in self.requirements
    ]

  def tasks(self, split: str, **options: Any) -> tuple[int, ...]:
    """The fixed ids of 'train', 'dev' or 'test' under these options.

    Raises:
      ConfigError: an option or the split is unknown or wrong.
    """
    if split not in SPLITS:
      raise ConfigError(f'Unknown split {split!r}; known: {", ".join(SPLITS)}.')
    checked = self.check_options(options)
    options = {name: checked[name] for name in self.task_options}
    with self._own_code('list_tasks'):
      return tuple(self.list_tasks(split, **options))

  def subtasks(self, **options: Any) -> Callable[[int], str]:
    """The kind of a task by its id, under these options.

    Raises:
      ConfigError: an option is unknown or wrong.
    """
    checked = self.check_options(options)
    if self.subtasks_of is not None:
      with self._own_code('subtasks_of'):
        return self.subtasks_of(**checked)
    return self.subtask or (lambda task_id: self.name)

  def clusters(self, **options: Any) -> Callable[[int], str] | None:
    """The template of a task by its id, under these options.

    None where each task counts; see `clusters_of`.

    Raises:
      ConfigError: an option is unknown or wrong.
      EnvError: a package that tells is missing.
    """
    checked = self.check_options(options)
    if self.clusters_of is None:
      return None
    with self._own_code('clusters_of'):
      return self.clusters_of(**checked)

  def check_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
    """`options` over the defaults; refuses unknown names."""
    unknown = [name for name in options if name not in self.options]
    if unknown:
      names = ', '.join(self.options)
      have = f'known: {names}' if names else 'it has none'
      near = difflib.get_close_matches(unknown[0], self.options, 1)
      if near:
        have = f'did you mean {near[0]}? {have[0].upper()}{have[1:]}'
      drop = ' '.join(f'--config.env.options.{name}=None' for name in unknown)
      raise ConfigError(
          f'{self.name} has no option {", ".join(unknown)}; {have}. Leave it'
          f' out of the command; one of the config is dropped by {drop}'
      )
    return {**self.options, **options}

  def instructions(self, format: str, style: str) -> str:
    """The policy's instructions before its first observation.

    Raises:
      ConfigError: the style is unknown, or the format is of no use here.
    """
    try:
      return prompts.instructions(self.words, self.functions, format, style)
    except ValueError as error:
      raise ConfigError(f'{self.name}: {error}') from error

  @contextlib.contextmanager
  def _own_code(self, name: str) -> Iterator[None]:
    """Names the function and the line of an error that is not meant for users."""
    try:
      yield
    except AgentrlError:
      raise
    except Exception as error:  # whatever a user's function does
      raise EnvFault(
          f'{plugins.words(error)} (environment {self.name}, {name})'
      ) from error
