"""Tests for agentrl.parallel.ranks; several processes are in tests.parallel."""

import pytest

from agentrl.errors import ConfigError, EnvError
from agentrl.parallel import distributed, ranks
from agentrl.runtime.event_loop import Interrupted

TORCHRUN = dict(
    RANK='1', WORLD_SIZE='4', MASTER_ADDR='10.0.0.1', MASTER_PORT='1234'
)


def test_a_mode_of_one_process_is_not_run_in_several():
  with pytest.raises(
      ConfigError,
      match="mode='evaluate' runs in one process, and this is one of 4",
  ):
    ranks.join(TORCHRUN, 'evaluate', ready=False)
  ranks.join({}, 'evaluate', ready=False)


def of_two(monkeypatch, other):
  """Makes this process the first of two; `other` is what the second says."""
  monkeypatch.setattr(
      distributed, 'share', lambda message: [message, other(message)]
  )


def test_results_come_in_the_order_of_the_processes(monkeypatch):
  assert ranks.gather(lambda: [1, 2]) == [1, 2]
  of_two(monkeypatch, lambda message: message)
  assert ranks.gather(lambda: [1, 2]) == [1, 2, 1, 2]


@pytest.mark.parametrize('error', [EnvError('down'), Interrupted()])
def test_what_stops_one_process_stops_all(monkeypatch, error):
  def fail():
    raise error

  messages = []
  of_two(monkeypatch, lambda message: messages.append(message) or message)
  with pytest.raises(type(error)):
    ranks.gather(fail)
  # The other process, whose own work went well.
  of_two(monkeypatch, lambda message: messages[0])
  with pytest.raises(type(error)):
    ranks.gather(lambda: [1])


def test_any_process_may_be_asked_to_stop(monkeypatch):
  class Host:
    interrupted, asked = False, 'SIGTERM'

  host = Host()
  ranks.check(host)
  of_two(monkeypatch, lambda message: b'1')
  with pytest.raises(Interrupted):
    ranks.check(host)
  assert host.interrupted
