"""Tests for the GPU kit, on a machine that need not have one."""

import json
import pathlib
import subprocess
import sys
import time

import jax
import pytest

from experiments.benchmarks import gpu

ROOT = pathlib.Path(__file__).parents[2]


def kit(*flags):
  """The exit code, the records and the table of a run of the kit."""
  process = subprocess.run(
      [sys.executable, '-m', 'experiments.benchmarks.gpu', *flags],
      capture_output=True,
      text=True,
      cwd=ROOT,
  )
  lines, _, table = process.stdout.partition('\n\n')
  return process.returncode, list(map(json.loads, lines.splitlines())), table


def test_a_case_is_one_line_and_one_row():
  status, (device, record), table = kit('--cases=loss_memory')
  assert status == 0 and device['case'] == 'device' and device['device']
  assert (record['case'], record['status']) == ('loss_memory', 'ok')
  assert {r['case'] for r in record['results']} > {'chunked', 'naive'}
  assert '| loss_memory | ok |' in table
  assert ('missing: a GPU' in table) == (device['platform'] != 'gpu')


def test_an_unknown_case_names_the_known_ones():
  status, _, _ = kit('--cases=speed')
  assert status == 1


@pytest.mark.slow
@pytest.mark.extra
def test_every_case_runs(tmp_path):
  # But for a real server, which tests/sglang asks.
  on_gpu = jax.default_backend() == 'gpu'
  cases = gpu.make_cases(on_gpu, 'qwen2.5-1.5b', None, tmp_path)
  names = [case.name for case in cases if not case.missing]
  status, (_, *records), table = kit(f'--cases={",".join(names)}')
  assert status == 0
  ran = {r['case']: r for r in records if r['status'] == 'ok'}
  assert list(ran) == names
  for record in records:
    assert f'| {record["case"]} | {record["status"]} |' in table
  [step] = ran['agreement']['results']
  assert step['sampler/logprob_abs_diff_max'] < 1e-4


def run(tmp_path, code, limit_s=60.0, **kwargs):
  case = gpu.Case('case', ['-c', code], str, **kwargs)
  return gpu.run_case(case, limit_s, tmp_path / 'case.log')


@pytest.mark.parametrize(
    'code, error',
    [
        ('print("{}"); raise SystemExit("no memory")', 'no memory'),
        ('print("no line of JSON")', ''),
    ],
)
def test_a_case_that_fails_is_reported(tmp_path, code, error):
  record = run(tmp_path, code)
  assert (record['status'], record['error']) == ('failed', error)


def test_a_case_that_takes_too_long_keeps_what_it_printed(tmp_path):
  began = time.monotonic()
  code = 'import time; print("{}", flush=True); time.sleep(60)'
  record = run(tmp_path, code, limit_s=2.0)
  assert (record['status'], record['results']) == ('timeout', [{}])
  assert time.monotonic() - began < 30
  assert run(tmp_path, code, limit_s=-1.0)['status'] == 'timeout'


def test_what_is_missing_is_not_run(tmp_path):
  record = run(tmp_path, 'raise SystemExit(1)', missing='a wheel')
  assert (record['status'], record['error']) == ('missing', 'a wheel')
