"""Tests for agentrl.modes.hosts; several processes are in tests.parallel."""

import pytest

from agentrl.errors import ConfigError, EnvError
from agentrl.modes import hosts
from agentrl.modes.host import Interrupted
from agentrl.modes.hosts import Place
from agentrl.parallel import distributed

TORCHRUN = dict(
    RANK='1', WORLD_SIZE='4', MASTER_ADDR='10.0.0.1', MASTER_PORT='1234'
)


@pytest.mark.parametrize(
    'environ, place',
    [
        ({}, Place()),
        (dict(TORCHRUN, WORLD_SIZE='1', RANK='0'), Place()),
        (TORCHRUN, Place(4, 1, '10.0.0.1:1234')),
        (
            {k: v for k, v in TORCHRUN.items() if k != 'MASTER_PORT'},
            Place(4, 1, '10.0.0.1:29500'),
        ),
        # One process a device, and one a machine.
        (
            dict(TORCHRUN, LOCAL_RANK='1', LOCAL_WORLD_SIZE='2'),
            Place(4, 1, '10.0.0.1:1234', 1),
        ),
        (
            dict(TORCHRUN, LOCAL_RANK='0', LOCAL_WORLD_SIZE='1'),
            Place(4, 1, '10.0.0.1:1234'),
        ),
        (dict(SLURM_STEP_NUM_TASKS='2', SLURM_PROCID='0'), Place(2)),
        # A batch script that starts one process of an allocation of eight.
        (dict(SLURM_NTASKS='8', SLURM_PROCID='0'), Place()),
        (dict(OMPI_COMM_WORLD_SIZE='2', OMPI_COMM_WORLD_RANK='1'), Place(2)),
    ],
)
def test_the_launcher_says_who_we_are(environ, place):
  assert hosts.find(environ) == place


@pytest.mark.parametrize(
    'environ, message',
    [
        (dict(WORLD_SIZE='2'), 'RANK and MASTER_ADDR is not set; set RANK'),
        (dict(TORCHRUN, MASTER_ADDR=''), 'but MASTER_ADDR is not set'),
        (dict(TORCHRUN, RANK='4'), 'RANK=4 is not below WORLD_SIZE=4'),
        (dict(TORCHRUN, WORLD_SIZE='many'), "WORLD_SIZE='many' is not a num"),
    ],
)
def test_half_an_answer_is_refused(environ, message):
  with pytest.raises(ConfigError, match=message):
    hosts.find(environ)


def test_a_mode_of_one_process_is_not_run_in_several():
  with pytest.raises(
      ConfigError,
      match="mode='evaluate' runs in one process, and this is one of 4",
  ):
    hosts.join(TORCHRUN, 'evaluate', ready=False)
  hosts.join({}, 'evaluate', ready=False)


def of_two(monkeypatch, other):
  """Makes this process the first of two; `other` is what the second says."""
  monkeypatch.setattr(
      distributed, 'share', lambda message: [message, other(message)]
  )


def test_results_come_in_the_order_of_the_processes(monkeypatch):
  assert hosts.together(lambda: [1, 2]) == [1, 2]
  of_two(monkeypatch, lambda message: message)
  assert hosts.together(lambda: [1, 2]) == [1, 2, 1, 2]


@pytest.mark.parametrize('error', [EnvError('down'), Interrupted()])
def test_what_stops_one_process_stops_all(monkeypatch, error):
  def fail():
    raise error

  messages = []
  of_two(monkeypatch, lambda message: messages.append(message) or message)
  with pytest.raises(type(error)):
    hosts.together(fail)
  # The other process, whose own work went well.
  of_two(monkeypatch, lambda message: messages[0])
  with pytest.raises(type(error)):
    hosts.together(lambda: [1])


def test_any_process_may_be_asked_to_stop(monkeypatch):
  class Host:
    interrupted = False

  host = Host()
  hosts.check(host)
  of_two(monkeypatch, lambda message: b'1')
  with pytest.raises(Interrupted):
    hosts.check(host)
  assert host.interrupted
