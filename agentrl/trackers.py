"""Trackers: where metrics go besides a run's own `metrics.jsonl`.

A tracker has three functions. `start` opens a phase of the run and returns its
`write(step, values)`; `finish` closes all phases.
"""

import importlib.util
import json
import math
import os
import pathlib
import socket
import sys
import time
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from agentrl import plugins, shipped
from agentrl.errors import ConfigError, one_line

KINDS = ('tensorboard', 'wandb')
_WHAT = 'track.to='

Write = Callable[[int, Mapping[str, float]], None]

_WANDB = 'wandb'  # folder of W&B's files in the workdir
_WANDB_RUN = 'wandb.json'  # the run that a resume goes on with
_OFFLINE = ('offline', 'dryrun', 'disabled')
_REACH_S = 5.0  # to find out that there is no network
_WAY_OUT = 'set WANDB_MODE=offline and upload later with `wandb sync`'


class Tracker(Protocol):
  """One place for the metrics of a run."""

  def start(self, folder: pathlib.Path, prefix: str, step: int) -> Write:
    """Opens a phase.

    Args:
      folder: where the phase keeps its files: the workdir, or one below it.
      prefix: of the names of its metrics.
      step: first one that is written; later ones of before are void.

    Returns:
      The function that writes one step.
    """

  def finish(self) -> None:
    """Closes all phases."""

  @property
  def link(self) -> str:
    """The place of the metrics: a URL, or a path in the workdir."""


def check(names: Sequence[str]) -> None:
  """Refuses now what a tracker would refuse after minutes.

  Raises:
    ConfigError: W&B is not installed, or has no key or no network; or there is no
      such tracker of one's own.
  """
  if 'wandb' in names:
    _check_wandb()
  for name in filter(plugins.is_own, names):
    _own(name)


def make(
    names: Sequence[str],
    workdir: pathlib.Path,
    config: Mapping[str, Any],
    *,
    project: str,
    name: str | None,
) -> dict[str, Tracker]:
  """The trackers of a run by name; nothing is opened yet.

  Args:
    names: of `KINDS`, or `module:NAME` or `FILE.py:NAME` of a function of workdir
      and config that gives a `Tracker`, such as a class.
    workdir: of the run.
    config: of the run, kept beside its metrics.
    project: of W&B.
    name: of the run there; None: that of the workdir.

  Raises:
    ConfigError: W&B cannot be used; says the way out.
  """
  check(names)
  trackers: dict[str, Tracker] = {}
  for chosen in names:
    if chosen == 'wandb':
      trackers[chosen] = Wandb(workdir, config, project, name or workdir.name)
    elif plugins.is_own(chosen):
      trackers[chosen] = _own(chosen)(workdir, config)
    else:
      trackers[chosen] = TensorBoard()
  return trackers


def _own(name: str) -> Callable[..., Tracker]:
  return plugins.function(name, {}, _WHAT)


class TensorBoard:
  """Event files that are whole after each step.

  tensorboardX's own writer hands events to a thread, which keeps them for up to
  two minutes: a SIGKILL would lose those steps.
  """

  link = 'tensorboard'

  def __init__(self):
    self._writers: list[Any] = []

  def start(self, folder: pathlib.Path, prefix: str, step: int) -> Write:
    """Opens a new file, whose first event hides step `step` and later ones."""
    tensorboardx = _import_tensorboard()
    events = tensorboardx.proto.event_pb2
    summary = tensorboardx.proto.summary_pb2.Summary
    place = folder / 'tensorboard' / prefix
    place.mkdir(parents=True, exist_ok=True)
    # The name has seconds only, and an older file of this name would be lost.
    writer = tensorboardx.event_file_writer.EventsWriter(
        str(place / 'events'), f'.{time.time_ns()}'
    )
    self._writers.append(writer)

    def add(step: int, **content) -> None:
      event = events.Event(step=step, wall_time=time.time(), **content)
      writer.write_event(event)
      writer.flush()

    def write(step: int, values: Mapping[str, float]) -> None:
      items = [
          summary.Value(tag=prefix + name, simple_value=value)
          for name, value in values.items()
          if math.isfinite(value)
      ]
      add(step, summary=summary(value=items))

    session = events.SessionLog
    add(step, session_log=session(status=session.START))
    return write

  def finish(self) -> None:
    for writer in self._writers:
      writer.close()


class Wandb:
  """One run of Weights & Biases, which a resume goes on with.

  Metrics are drawn over `step`, a metric of their own: W&B's own counter cannot
  go back, and a resumed run repeats the steps since its checkpoint. The mode,
  the key and the entity are W&B's own environment variables.
  """

  def __init__(
      self,
      workdir: pathlib.Path,
      config: Mapping[str, Any],
      project: str,
      name: str,
  ):
    self._workdir, self._config = workdir, config
    self._project, self._name = project, name
    self._run: Any = None  # of wandb, which need not be installed

  def start(self, folder: pathlib.Path, prefix: str, step: int) -> Write:
    if self._run is None:
      self._run = self._init()
    inner = folder.relative_to(self._workdir).as_posix()
    prefix = prefix if inner == '.' else f'{inner}/{prefix}'
    counter = f'{prefix}step'
    self._run.define_metric(f'{prefix}*', step_metric=counter)

    def write(step: int, values: Mapping[str, float]) -> None:
      named = {prefix + name: value for name, value in values.items()}
      self._run.log(named | {counter: step})

    return write

  def finish(self) -> None:
    if self._run is not None:
      self._run.finish()

  @property
  def link(self) -> str:
    if self._run is None:
      return ''
    if not self._run.offline:
      return self._run.url
    folder = pathlib.Path(self._run.dir).parent
    return folder.relative_to(self._workdir).as_posix()

  def _init(self):
    import wandb

    path = self._workdir / _WANDB_RUN
    record = json.loads(path.read_text()) if path.exists() else {}
    try:
      run = wandb.init(
          project=self._project,
          name=self._name,
          id=record.get('id'),
          # Offline it goes on by its id alone.
          resume=None if _offline() else 'allow',
          dir=str(self._workdir),
          config=dict(self._config),
          settings=wandb.Settings(
              console='off', disable_git=True, save_code=False, silent=True
          ),
      )
    except wandb.errors.Error as error:
      message = one_line(error)
      raise ConfigError(
          f'Weights & Biases refuses the run ({message}): {_WAY_OUT}, or leave'
          ' it out: --config.track.to=tensorboard'
      ) from error
    path.write_text(json.dumps({'id': run.id}) + '\n')
    return run


def _check_wandb() -> None:
  if importlib.util.find_spec('wandb') is None:
    raise ConfigError(
        "track.to='wandb' needs the package: pip install -r"
        f' {shipped.requirements("wandb")}'
    )
  if _offline():
    return
  import wandb

  url = urllib.parse.urlsplit(wandb.setup().settings.base_url)
  port = url.port or (443 if url.scheme == 'https' else 80)
  try:
    # First: W&B itself tries for long.
    socket.create_connection((url.hostname, port), _REACH_S).close()
    has_key = wandb.login(prompt=False)  # False: there is no key
  except (OSError, wandb.errors.Error) as error:
    message = one_line(error)
    raise ConfigError(
        f"track.to='wandb' cannot use {url.geturl()} ({message}): {_WAY_OUT}."
    ) from error
  if not has_key:
    raise ConfigError(
        "track.to='wandb' has no key: run `wandb login`, set WANDB_API_KEY, or"
        f' {_WAY_OUT}.'
    )


def _offline() -> bool:
  return os.environ.get('WANDB_MODE', 'online') in _OFFLINE


def _import_tensorboard():
  """Imports tensorboardX as it is without torch.

  Where there is torch it imports it, for types that are not written here: two
  seconds of every start.
  """
  hidden = 'torch' not in sys.modules
  if hidden:
    sys.modules['torch'] = None
  try:
    import tensorboardX.event_file_writer
  finally:
    if hidden:
      del sys.modules['torch']
  return tensorboardX
