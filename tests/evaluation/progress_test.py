"""Tests for agentrl.evaluation.progress."""

import io

import rich.console

from agentrl.evaluation.progress import Progress


class Clock:
  """A clock that the test moves."""

  def __init__(self):
    self.now = 100.0

  def __call__(self):
    return self.now


def lines(total, seconds, *, done=0):
  """The lines in a pipe of episodes that each take some seconds."""
  clock, file = Clock(), io.StringIO()
  console = rich.console.Console(file=file, width=40)
  with Progress(console, 'a [b]', total, done=done, clock=clock) as progress:
    for _ in range(total - done):
      clock.now += seconds
      progress.advance()
  return file.getvalue().splitlines()


def test_a_pipe_gets_a_line_at_times():
  said = lines(400, 1.0)
  # After 5, 15 and 35 s, then with pauses of 40 and of 60.
  assert [x.split(', ')[1].split()[0] for x in said] == [
      *('5', '15', '35', '75', '135', '195', '255', '315', '375'),
  ]
  assert said[2] == 'a [b]: 8%, 35 of 400 episodes, ETA 6:05'


def test_many_quick_episodes_are_no_flood():
  assert len(lines(100_000, 0.001)) == 4
  assert lines(1000, 0.001) == []


def test_the_time_left_goes_by_this_process_alone():
  # 900 were there before: the 100 that are left take 10 s each.
  assert lines(1000, 10.0, done=900)[0] == (
      'a [b]: 90%, 901 of 1000 episodes, ETA 16:30'
  )


def test_a_terminal_gets_a_bar():
  file = io.StringIO()
  console = rich.console.Console(file=file, force_terminal=True, width=80)
  with Progress(console, 'a on b', 4, done=1) as progress:
    progress.advance()
  assert 'a on b' in file.getvalue() and '2/4' in file.getvalue()
