"""The soaks of runs and of real servers: they find what they look for."""

import asyncio
import json

import pytest

from experiments.benchmarks import soak_faults, soak_run, soak_spans

STEPS, EPISODES = 3, 2
SMALL = 'tests/e2e/small.py:configs.quickstart'


def write_lines(path, lines):
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text(''.join(json.dumps(line) + '\n' for line in lines))


def metrics_of(step, **others):
  values = {'logprob_abs_diff_mean': 1e-7, 'stale_turns': 0.0} | others
  return {'step': step} | {f'sampler/{k}': v for k, v in values.items()}


@pytest.fixture
def record(tmp_path):
  """What a run leaves that a kill made go back by one step."""
  write_lines(tmp_path / 'metrics.jsonl', map(metrics_of, range(STEPS)))
  write_lines(tmp_path / 'metrics.jsonl.discarded', [metrics_of(1)])
  for step in range(STEPS):
    path = tmp_path / 'episodes' / 'train' / f'{step:06d}.jsonl'
    write_lines(path, [{'episode_id': str(i)} for i in range(EPISODES)])
    path.with_suffix('.npz').touch()
  (tmp_path / 'summary.json').write_text(json.dumps({'steps': STEPS}))
  return tmp_path


def problems(record, discards=1):
  return list(
      soak_run.problems_of_record(
          record, steps=STEPS, episodes=EPISODES, discards=discards
      )
  )


def test_a_whole_record_has_no_problem(record):
  assert problems(record) == []


def double_a_step(record):
  write_lines(record / 'metrics.jsonl', map(metrics_of, (0, 1, 1, 2)))


def lose_a_step(record):
  write_lines(record / 'metrics.jsonl', map(metrics_of, (0, 2)))


def score_with_other_weights(record):
  lines = [metrics_of(0), metrics_of(1, logprob_abs_diff_mean=1e-3)]
  write_lines(record / 'metrics.jsonl', [*lines, metrics_of(2)])


def play_with_an_old_version(record):
  lines = [metrics_of(0), metrics_of(1, stale_turns=1.0)]
  write_lines(record / 'metrics.jsonl', [*lines, metrics_of(2)])


def lose_episodes(record):
  (record / 'episodes' / 'train' / '000001.jsonl').unlink()


def double_an_episode(record):
  path = record / 'episodes' / 'train' / '000001.jsonl'
  write_lines(path, [{'episode_id': '0'}] * EPISODES)


def end_without_a_summary(record):
  (record / 'summary.json').unlink()


def end_early(record):
  values = {'status': 'failed', 'steps': STEPS}
  (record / 'summary.json').write_text(json.dumps(values))


@pytest.mark.parametrize(
    'harm, complaint',
    [
        (double_a_step, r'steps \[0, 1, 1, 2\]'),
        (lose_a_step, r'steps \[0, 2\]'),
        (score_with_other_weights, 'step 1: log-probabilities off by 0.001'),
        (play_with_an_old_version, 'stale=1.0'),
        (lose_episodes, '000002.jsonl'),
        (double_an_episode, '2 times'),
        (end_without_a_summary, 'no summary.json'),
        (end_early, 'that is failed'),
    ],
)
def test_what_is_wrong_with_a_record_is_told(record, harm, complaint):
  harm(record)
  found = problems(record)
  assert len(found) == 1
  with pytest.raises(AssertionError, match=complaint):
    raise AssertionError(found[0])


def test_more_steps_done_again_than_kills_explain_are_told(record):
  assert '1 steps were done again' in problems(record, discards=0)[0]


@pytest.mark.slow
def test_a_run_on_engines_lives_through_faults(tmp_path, monkeypatch):
  flags = soak_faults.run_flags

  def smaller(**kwargs):
    ours, quickstart = SMALL, 'configs/quickstart.py'
    return (
        *(flag.replace(quickstart, ours) for flag in flags(**kwargs)),
        "--config.sampler.launch.flags=('--skip-server-warmup',)",
    )

  monkeypatch.setattr(soak_faults, 'run_flags', smaller)
  # A moment comes in each of its steps, which take a second.
  monkeypatch.setattr(soak_faults, '_PATIENCE_S', 15.0)
  weights = {'kill_server': 1, 'stop_server': 1, 'pause': 1, 'kill_trainer': 1}
  report = asyncio.run(
      soak_faults.soak(
          tmp_path / 'run', faults=3, seed=1, engine=True, weights=weights
      )
  )
  assert report.failures == []
  assert report.kinds == {'kill_server': 1, 'kill_trainer': 1, 'pause': 1}


def reply_of(cached, *spans):
  size = spans[-1][2]
  return {
      'meta_info': {
          'cached_tokens': cached,
          'weight_versions': [
              {'version': str(v), 'start': a, 'end': b} for v, a, b in spans
          ],
          'output_token_logprobs': [[-1.0, 9, None]] * size,
      },
      'output_ids': [9] * size,
  }


def runs_of(prompt, reply, runs, carried):
  payload = {'input_ids': list(range(prompt)), 'sampling_params': {}}
  found = soak_spans.spans_of(payload, reply, runs, carried)
  return [(span.start, span.end, span.runs) for span in found]


def test_entries_belong_to_the_versions_that_computed_them():
  carried = {1: False, 2: True, 3: False}
  # Sampled across a push that leaves the cache, then one that does not.
  reply = reply_of(0, (1, 0, 2), (2, 2, 5), (3, 5, 6))
  assert runs_of(10, reply, (), carried) == [
      (10, 12, ((1, 0),)),
      (12, 15, ((1, 0), (2, 11))),
      (15, 16, ((3, 0),)),
  ]
  # The next turn goes on over what is cached, and computes the rest.
  before = ((1, 0), (2, 11))
  assert runs_of(20, reply_of(14, (2, 0, 1)), before, carried) == [
      (20, 21, before)
  ]
  assert runs_of(20, reply_of(8, (2, 0, 1)), before, carried) == [
      (20, 21, ((1, 0), (2, 8)))
  ]
  assert runs_of(20, reply_of(0, (3, 0, 1)), before, carried) == [
      (20, 21, ((3, 0),))
  ]


def test_a_token_under_way_in_a_pause_may_be_the_old_versions():
  carried = {1: False, 2: True, 3: False}

  def late(prompt, reply, runs):
    payload = {'input_ids': list(range(prompt)), 'sampling_params': {}}
    span = list(soak_spans.spans_of(payload, reply, runs, carried))[-1]
    other = soak_spans.late(span, carried)
    return other and other.runs

  # Decoding, or computing the prompt after what was cached, or after nothing.
  reply = reply_of(0, (1, 0, 2), (2, 2, 5))
  assert late(10, reply, ()) == ((1, 0), (2, 12))
  assert late(10, reply_of(4, (2, 0, 5)), ((1, 0),)) == ((1, 0), (2, 10))
  assert late(10, reply_of(0, (2, 0, 5)), ()) == ((1, 0), (2, 10))
  # Other pushes end what is under way first.
  assert late(10, reply_of(0, (1, 0, 2), (3, 2, 5)), ()) is None
