"""Tests for agentrl.inference.replicas, with a clock of their own."""

import pytest

from agentrl.errors import ConfigError, EngineError
from agentrl.inference.replicas import Replicas

A, B, C = 'http://a', 'http://b', 'http://c'


class Clock:
  now = 0.0

  def __call__(self):
    return self.now


def make(*urls):
  clock = Clock()
  return Replicas(urls, cool_down_s=1.0, clock=clock), clock


def test_the_least_loaded_replica_gets_the_next_request():
  replicas, _ = make(A, B, C)
  assert sorted(replicas.take() for _ in range(3)) == [A, B, C]
  replicas.give_back(B, failed=False)
  assert replicas.take() == B
  assert [replicas.in_flight(url) for url in (A, B, C)] == [1, 1, 1]


def test_an_idle_replica_with_fewer_episodes_comes_first():
  replicas, _ = make(A, B)
  for key in 'xyz':  # each waits for its environment when the next begins
    replicas.give_back(replicas.take(key), failed=False)
  homes = [replicas.take(key) for key in 'xyz']
  assert sorted(homes) == [A, A, B]


def test_later_turns_go_home_even_to_a_busier_replica():
  replicas, _ = make(A, B)
  home = replicas.take('x')
  for _ in range(3):
    assert replicas.take('x') == home


def test_a_failed_replica_is_left_alone_and_comes_back():
  replicas, clock = make(A, B)
  assert replicas.take('x') == A
  replicas.give_back(A, failed=True)
  assert [replicas.take(key) for key in 'xyz'] == [B, B, B]
  clock.now = 1.0
  assert replicas.take('new') == A  # it has nothing under way
  assert replicas.take('x') == B  # whose cache knows this episode by now


def test_the_cool_down_doubles_until_a_success_and_has_a_limit():
  replicas, clock = make(A, B)
  for pause in (1, 2, 4, 8, 16, 30, 30):
    # Two requests of one failure are one failure.
    replicas.take('a'), replicas.take('b')
    for _ in range(2):
      replicas.give_back(A, failed=True)
    clock.now += pause - 0.5
    assert replicas.take() == B
    clock.now += 0.5
    while replicas.take() != A:
      pass
  replicas.give_back(A, failed=False)
  replicas.give_back(A, failed=True)
  clock.now += 1
  while replicas.take() != A:
    pass


def test_when_all_have_failed_the_one_rested_longest_is_asked():
  replicas, clock = make(A, B)
  replicas.take(), replicas.take()
  replicas.give_back(B, failed=True)
  clock.now = 0.5
  replicas.give_back(A, failed=True)
  assert replicas.take() == B


def test_a_cancelled_request_says_nothing_of_its_replica():
  replicas, _ = make(A, B)
  replicas.take(), replicas.take()
  replicas.give_back(A, failed=True)
  replicas.give_back(A, failed=None)
  assert replicas.take() == B


def test_held_replicas_get_nothing_until_they_are_released():
  replicas, _ = make(A, B)
  replicas.hold(A)
  assert replicas.serving() == (B,)
  assert {replicas.take() for _ in range(4)} == {B}
  replicas.hold(B)
  assert replicas.take() is None
  replicas.release(A)
  assert replicas.take() == A


def test_lost_replicas_are_told_once_none_is_left():
  replicas, _ = make(A, B)
  replicas.lose(A, 'a burnt down.')
  assert {replicas.take() for _ in range(3)} == {B}
  replicas.lose(B, 'b is under water.')
  with pytest.raises(EngineError, match='a burnt down.; b is under') as info:
    replicas.take()
  assert not info.value.retryable


def test_homes_of_ended_episodes_are_forgotten_in_order(monkeypatch):
  monkeypatch.setattr('agentrl.inference.replicas._MAX_HOMES', 2)
  replicas, _ = make(A, B)
  for key in 'wxyz':
    replicas.give_back(replicas.take(key), failed=False)
  # y and z are remembered at A, x no longer at B, which so has room.
  assert replicas.take('new') == B


@pytest.mark.parametrize('urls', [[], ['localhost:30000']])
def test_unusable_urls_are_refused(urls):
  with pytest.raises(ConfigError, match='URL'):
    Replicas(urls)


def test_a_condemned_replica_gets_nothing_until_it_is_released():
  replicas, _ = make(A, B)
  replicas.condemn(A, 'it hangs')
  assert replicas.condemned(A) == 'it hangs'
  assert replicas.serving() == (B,)
  replicas.hold(A)  # it is being started again, and cannot fail meanwhile
  replicas.condemn(A, 'it still hangs')
  assert replicas.condemned(A) is None
  replicas.release(A)
  assert replicas.serving() == (A, B)
  assert replicas.condemned(A) is None
