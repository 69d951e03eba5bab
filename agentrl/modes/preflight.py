"""Refusals that need neither a process nor weights, for the dry run and doctor.

Each check is the function by which the run itself refuses, so that they cannot
differ; a run meets them in its first seconds. Those of modes that compile nothing
import no jax.
"""

import importlib
import pathlib
from collections.abc import Callable
from typing import Any

from ml_collections import ConfigDict

from agentrl import envs, plugins, trackers
from agentrl.config import evaluation, mixture
from agentrl.config.modes import Evaluate, Learning, Train
from agentrl.data import episodes as episodes_lib
from agentrl.envs.options import EnvName
from agentrl.errors import ConfigError, DataError
from agentrl.evaluation.compare import recorded
from agentrl.evaluation.curves import figure as curves_figure
from agentrl.evaluation.studies import page, tables
from agentrl.http import auth
from agentrl.modes import held_out, source, told
from agentrl.rollout import context, reward as reward_lib
from agentrl.rollout.task_lists import TaskLists
from agentrl.runtime import workdir as workdir_lib
from agentrl.serving import remote
from agentrl.weights import finding


def check(
    config: ConfigDict, read: Any, workdir: str | None, *, machine: bool = True
) -> None:
  """Refuses a config whose run would be refused before anything is learnt.

  Args:
    config: as the command has it.
    read: the same, as its mode reads it.
    workdir: of the run; one that goes on needs no files.
    machine: False leaves out packages of this machine, which doctor examines
      with their remedies.

  Raises:
    AgentrlError: the run's own.
  """
  if isinstance(read, Learning):
    # Imported late: it brings jax along, which the other checks do without.
    of_runs = importlib.import_module('agentrl.modes.preflight_learning')
    of_runs.check(read, workdir)
  elif (of_mode := _CHECKS.get(read.mode)) is not None:
    of_mode(config, read, workdir)
  if machine:
    _packages(config, read)


def _packages(config: ConfigDict, read: Any) -> None:
  """Refuses where a package of an environment or a tracker is missing."""
  if isinstance(read, Learning):
    trackers.check(read.track.to)
  for env in environments(config, read):
    if not env.urls:
      envs.get(env.name).check_packages()


def environments(config: ConfigDict, read: Any) -> list[EnvName]:
  """All that a config plays; several of a mixture or of panels.

  Args:
    config: of a mode.
    read: the same, checked.

  Raises:
    AgentrlError: of an evaluation: a server tells what cannot be used.
  """
  configs = [read]
  if isinstance(read, Train):
    configs = [member.config for member in mixture.members(read)]
  elif isinstance(read, Evaluate):
    configs = [x for item in told.read(config)[0] for x in item.configs]
  return [one.env for one in configs if getattr(one, 'env', None) is not None]


def task_lists(config: Any, task_file: str | None = None) -> TaskLists:
  """The tasks of a config's environment."""
  lists = TaskLists(config.env, task_file)
  if config.env.token_file:
    auth.read_token(config.env.token_file)
  agent = config.agent
  lists.spec.instructions(agent.format, agent.instructions)
  context.make(agent.context)
  reward = getattr(getattr(config, 'rollout', None), 'reward', '')
  if plugins.is_own(reward):
    reward_lib.find(reward)
  return lists


def _evaluate(config: ConfigDict, read: Any, workdir: str | None) -> None:
  del workdir
  if read.eval.curves:
    curves_figure.check_drawing()
  for item in told.read(config)[0]:
    for one in item.configs:
      held_out.make_panel(task_lists(one), one)
    if item.kind == evaluation.MODEL:
      finding.check(item.source)
      remote.read_keys(item.configs[0].sampler)


def _compare(config: ConfigDict, read: Any, workdir: str | None) -> None:
  del config, workdir
  chosen = read.compare
  recorded.read((*chosen.a, *chosen.b, *chosen.more))


def _export(config: ConfigDict, read: Any, workdir: str | None) -> None:
  del config, workdir
  workdir_lib.check_checkpoint(*source.find(read.checkpoint))


def _inspect(config: ConfigDict, read: Any, workdir: str | None) -> None:
  del config, workdir
  path = pathlib.Path(read.inspect.episodes)
  if next(iter(episodes_lib.read(path)), None) is None:
    raise DataError(f'{path} holds no episode.')


def _serve_env(config: ConfigDict, read: Any, workdir: str | None) -> None:
  del config, workdir
  spec = envs.get(read.env.name)
  spec.tasks('train', **read.env.options)
  if read.serve.token_file:
    auth.read_token(read.serve.token_file)


def _serve_policy(config: ConfigDict, read: Any, workdir: str | None) -> None:
  del config, workdir
  for file in (read.serve.api_key_file, read.serve.admin_api_key_file):
    if file:
      auth.read_token(file)
  finding.check(read.model.name)


def _study(config: ConfigDict, read: Any, workdir: str | None) -> None:
  del config, workdir
  curves_figure.check_drawing(page.WHAT)
  if read.study.parquet:
    tables.check_parquet()
  if not pathlib.Path(read.study.folder).is_dir():
    raise ConfigError(f'There is no folder {read.study.folder} to study.')


def _view(config: ConfigDict, read: Any, workdir: str | None) -> None:
  del config, read
  if workdir and not pathlib.Path(workdir).is_dir():
    raise ConfigError(f'--workdir={workdir} is no folder with runs.')


_CHECKS: dict[str, Callable[[ConfigDict, Any, str | None], None]] = {
    'evaluate': _evaluate,
    'compare': _compare,
    'export': _export,
    'inspect': _inspect,
    'serve_env': _serve_env,
    'serve_policy': _serve_policy,
    'study': _study,
    'view': _view,
}
