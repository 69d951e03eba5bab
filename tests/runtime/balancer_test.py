"""Tests for agentrl.runtime.balancer; its two users have more of their own."""

from agentrl.runtime.balancer import ServerLoad, least_busy


def test_the_least_busy_server_is_chosen_and_one_that_failed_comes_last():
  busy, idle = ServerLoad(in_flight=3), ServerLoad(in_flight=1)
  assert least_busy([busy, idle], 0.0) is idle
  idle.fail(0.0, 5.0)
  assert least_busy([busy, idle], 4.9) is busy
  assert least_busy([busy, idle], 5.0) is idle


def test_of_failed_servers_the_one_that_rested_longest_is_chosen():
  first, second = ServerLoad(), ServerLoad()
  first.fail(0.0, 5.0), second.fail(1.0, 5.0)
  assert least_busy([first, second], 2.0) is first
  first.fail(2.0, 5.0)  # it was tried, and failed again
  assert least_busy([first, second], 2.0) is second


def test_pauses_double_up_to_a_limit_and_end_with_a_success():
  server, now = ServerLoad(), 0.0
  for pause in (1, 2, 4, 8, 16, 30, 30):
    server.fail(now, 1.0)
    server.fail(now, 1.0)  # another request of the same failure
    assert server.cool_until - now == pause
    now = server.cool_until
  server.succeed()
  server.fail(now, 1.0)
  assert server.cool_until - now == 1


def test_a_server_that_fails_for_days_overflows_nothing():
  server = ServerLoad(failures=10**4)
  server.fail(0.0, 1.0)
  assert server.cool_until == 30.0
