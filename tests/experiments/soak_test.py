"""The soak of the engine: a short one finds nothing, and faults are found."""

import asyncio
import itertools

import pytest

from agentrl.engine.cache import SlotTable
from agentrl.engine.core import EngineCore
from agentrl.engine.live_sequences import LiveSequences
from agentrl.engine.model_runner import ModelRunner
from agentrl.engine.sequence import Sequence
from experiments.benchmarks import soak_engine, soak_scores, soak_traffic
from experiments.benchmarks.soak_replies import Ask


def soak(requests, seed=0, **kwargs):
  return asyncio.run(soak_engine.soak(requests=requests, seed=seed, **kwargs))


def missing(report, requests):
  """Ends and deeds that a clean report lacks."""
  assert report.failures == []
  assert report.requests == sum(report.ends.values()) == requests
  assert report.spans['fresh']
  ends, deeds = ' '.join(report.ends), ' '.join(report.operator)
  wanted = ('left', 'stop', 'length', 'abort', 'stream', 'bad 400')
  return [end for end in wanted if end not in ends] + [
      deed for deed in ('update', 'abort') if deed not in deeds
  ]


def test_a_short_soak_finds_nothing():
  # Whether the operator meets requests under way is chance, the less likely the
  # busier the machine: a few seeds have met all of it.
  for seed in range(4):
    lacks = missing(soak(300, seed, round_size=150), 300)
    if not lacks:
      break
  assert not lacks


@pytest.mark.slow
@pytest.mark.extra
def test_a_long_soak_finds_nothing():
  report = soak(2000)
  assert not missing(report, 2000)
  # Tokens that went on over entries of older weights: too rare in a short one.
  assert report.spans['carried']


def shifted_logprobs(monkeypatch):
  decode = ModelRunner.decode

  def wrong(*args, **kwargs):
    ids, logprobs, *rest = decode(*args, **kwargs)
    return ids, logprobs + 1e-3, *rest

  monkeypatch.setattr(ModelRunner, 'decode', wrong)


def stale_entries(monkeypatch):
  swap = EngineCore.swap
  stale = lambda self, params, version, flush: swap(
      self, params, version, flush=False
  )
  monkeypatch.setattr(EngineCore, 'swap', stale)


def leaked_slots(monkeypatch):
  release, calls = SlotTable.release, itertools.count(1)

  def leak(self, slot):
    if next(calls) % 40:
      release(self, slot)

  monkeypatch.setattr(SlotTable, 'release', leak)


def lost_replies(monkeypatch):
  finish, calls = LiveSequences.finish, itertools.count(1)

  def lose(self, sequence, reason):
    if next(calls) % 40:
      finish(self, sequence, reason)
    else:
      self._leave(sequence)

  monkeypatch.setattr(LiveSequences, 'finish', lose)
  monkeypatch.setattr(soak_traffic, 'LOST_S', 5.0)


def wrong_texts(monkeypatch):
  text = Sequence._text
  monkeypatch.setattr(Sequence, '_text', lambda self: text(self) + '.')


@pytest.mark.slow
@pytest.mark.extra
@pytest.mark.parametrize(
    'plant, complaint',
    [
        (shifted_logprobs, 'differ by 0.001 from'),
        (stale_entries, "from the trainer's"),
        (leaked_slots, 'leaked slots'),
        (lost_replies, 'no answer'),
        (wrong_texts, 'text '),
    ],
)
def test_a_fault_is_found(monkeypatch, plant, complaint):
  plant(monkeypatch)
  report = soak(400, round_size=100)
  assert any(complaint in failure for failure in report.failures), report


def test_spans_say_which_weights_computed_what():
  ask = Ask(
      {
          'input_ids': [5, 6, 7],
          'sampling_params': {},
          'logprob_start_len': -1,
      },
      version=3,
  )
  meta = {
      'cached_tokens': 2,
      'weight_version': '6',
      'weight_versions': [
          {'version': '3', 'start': 0, 'end': 2},
          {'version': '4', 'start': 2, 'end': 3},
          {'version': '6', 'start': 3, 'end': 4},
      ],
  }
  reply = {'output_ids': [8, 9, 10, 11], 'meta_info': meta}
  # The last of the prompt is computed with the first token; of the output, the
  # last before a swap after it. All was computed again for version 5.
  found = soak_scores.spans(ask, reply, {4: True, 5: False, 6: True})
  assert [
      (span.start, span.end, span.runs, span.suspects) for span in found
  ] == [
      (3, 5, ((3, 0),), ()),
      (5, 6, ((3, 0), (4, 4)), ()),
      (6, 7, ((6, 0),), (4, 5)),
  ]
