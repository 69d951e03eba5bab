"""The simulations of experiments/benchmarks, seeded and with fewer draws."""

import numpy as np
import pytest

from experiments.benchmarks import evaluation_statistics as simulations

NUMBER = 2_000  # so that shares are right to about a hundredth


def generator():
  return np.random.default_rng(0)


def bands(row, naive=False):
  return {
      name: value
      for name, value in row.items()
      if isinstance(value, simulations.Band) and ('naive' in name) == naive
  }


@pytest.mark.parametrize(
    'rate, icc, k, clusters, regular',
    [
        (0.02, 0.0, 1, 27, False),  # Wilson's alone: 0.899
        (0.02, 0.6, 8, 50, False),  # Without the few clusters' rule: 0.872
        (0.98, 0.6, 4, 100, False),
        (0.02, 0.3, 8, 200, True),
        (0.98, 0.3, 8, 500, True),
        (0.5, 0.9, 2, 20, True),
        (0.5, 0.3, 4, 50, True),
        (0.5, 0.0, 8, 100, True),
        (0.5, 0.6, 8, 500, True),
    ],
)
def test_intervals_of_success_hold_it(rate, icc, k, clusters, regular):
  row = simulations.success_cell(
      generator(), NUMBER, rate=rate, icc=icc, k=k, clusters=clusters
  )
  assert row['regular'] == regular
  assert row['coverage'].held, row
  # Where samples of a task resemble each other, independence fails.
  assert row['naive'].held == (icc == 0 and regular), row


@pytest.mark.parametrize(
    'rates, icc, agreement, k, clusters',
    [
        ((0.02, 0.02), 0.6, 0.0, 8, 50),
        ((0.02, 0.06), 0.0, 0.0, 1, 20),
        ((0.5, 0.6), 0.3, 0.8, 1, 200),
        ((0.5, 0.5), 0.6, 0.0, 8, 50),
        ((0.98, 0.95), 0.6, 0.0, 2, 500),
    ],
)
def test_intervals_of_differences_hold_them(rates, icc, agreement, k, clusters):
  row = simulations.difference_cell(
      generator(),
      NUMBER,
      rates=rates,
      icc=icc,
      agreement=agreement,
      k=k,
      clusters=clusters,
  )
  assert row['coverage'].held, row
  assert row['naive'].held == (k == 1 and clusters > 20), row


@pytest.mark.parametrize(
    'rate, icc, clusters', [(0.02, 0.0, 50), (0.5, 0.0, 20), (0.5, 0.6, 300)]
)
def test_a_policy_does_not_differ_from_itself(rate, icc, clusters):
  row = simulations.same_cell(
      generator(), NUMBER, rate=rate, icc=icc, clusters=clusters
  )
  assert len(bands(row)) == 6
  assert all(band.held for band in bands(row).values()), row


@pytest.mark.parametrize(
    'rates, icc, agreement, k',
    [
        ((0.5, 0.6), 0.0, 0.0, 1),
        ((0.9, 0.95), 0.4, 0.9, 1),
        ((0.5, 0.6), 0.4, 0.9, 2),
        ((0.5, 0.6), 0.7, 0.5, 8),
    ],
)
def test_planned_studies_detect_the_difference(rates, icc, agreement, k):
  row = simulations.power_cell(
      generator(), NUMBER, rates=rates, icc=icc, agreement=agreement, k=k
  )
  assert row['detected'].least == 0.77
  assert row['detected'].held, row
  difference = rates[1] - rates[0]
  assert row['smallest detectable after'] == pytest.approx(difference, rel=0.1)


def test_intervals_of_returns_hold_their_mean():
  for row in simulations.returns(generator(), NUMBER):
    assert all(band.held for band in bands(row).values()), row
    assert not any(band.held for band in bands(row, naive=True).values()), row


def test_a_band_allows_for_the_noise_of_simulations():
  band = lambda value, number: simulations.Band(value, number, 0.93, 0.97)
  assert band(0.93, 10_000).held and band(0.926, 10_000).held
  assert not band(0.92, 10_000).held and not band(0.98, 10_000).held
  assert str(band(0.92, 10_000)) == '0.920 !'


@pytest.mark.slow
@pytest.mark.parametrize('part', ['success', 'difference', 'same', 'planning'])
def test_whole_tables_hold(part):
  for row in getattr(simulations, part)(generator(), NUMBER):
    for name, value in row.items():
      assert name == 'naive' or '!' not in str(value), row
