# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 01 Quickstart
#
# A policy of one million parameters learns a BabyAI level: imitation of an expert,
# then multi-turn GRPO with a horizon that grows. Everything runs inside one
# command: environment server, inference engine, learner. Here two steps of it,
# about a minute on two cores, to see it work; without `:tiny` the real run takes
# ten minutes.

# %%
# Installs what is missing, and goes to the root of the clone.
import importlib.util
import os
import pathlib
import subprocess
import sys

here = pathlib.Path.cwd()
ROOT = next(
    (p for p in (here, *here.parents) if (p / 'launch.py').exists()), None
)
assert ROOT, 'Clone the repository, and open this notebook from the clone.'
os.chdir(ROOT)
sys.path.insert(0, str(ROOT))
needed = ('jax', 'ml_collections', 'minigrid', 'matplotlib')
if any(importlib.util.find_spec(name) is None for name in needed):
  files = ('requirements.txt', 'third_party/requirements/notebooks.txt')
  flags = [word for file in files for word in ('-r', file)]
  subprocess.run(
      [sys.executable, '-m', 'pip', 'install', '-q', *flags], check=True
  )

RUNS = pathlib.Path(os.environ.get('AGENTRL_RUNS', 'runs')).absolute()

# A kernel asks for colours, and so for progress bars.
COLOURS = ('FORCE_COLOR', 'CLICOLOR_FORCE', 'CLICOLOR')
PLAIN = {k: v for k, v in os.environ.items() if k not in COLOURS}
PLAIN |= {'COLUMNS': '100'}


def launch(*words, program=('launch.py',), **variables):
  """Runs a command as a shell would, and prints what it says."""
  print('python', *program, *words)
  with subprocess.Popen(
      [sys.executable, *program, *words],
      stdout=subprocess.PIPE,
      stderr=subprocess.STDOUT,
      text=True,
      env=PLAIN | variables,
  ) as process:
    for line in process.stdout:
      print(line, end='')
  assert process.returncode == 0, f'exit status {process.returncode}'


# %% [markdown]
# What does this machine lack? Each fault comes with its remedy.

# %%
launch('--config=configs/doctor.py:config=configs/quickstart.py:tiny')

# %% [markdown]
# The run. Executed again it finds itself finished; after an interrupt the same
# command continues.

# %%
CONFIG = 'configs/quickstart.py:tiny'  # the real run: 'configs/quickstart.py'
workdir = RUNS / 'quickstart'
launch(f'--config={CONFIG}', f'--workdir={workdir}')

# %% [markdown]
# What it left: success on held-out tasks with its 95% interval, untrained, before
# RL (after the warm start) and after it. Two steps teach nothing: the intervals of
# eight tasks are wide, and overlap.

# %%
import json

summary = json.loads((workdir / 'summary.json').read_text())
for name, found in summary['eval'].items():
  print(
      f'{name:10} {found["mean"]:.3f} [{found["low"]:.3f}, {found["high"]:.3f}]'
      f' on {found["tasks"]} tasks'
  )
assert (
    summary['steps']
    == json.loads((workdir / 'config.json').read_text())['num_steps']
)

# %% [markdown]
# Every field is a flag; `--fields=SECTION` says what there is, with type, default,
# meaning and constraint.

# %%
launch(f'--config={CONFIG}', '--fields=horizon')
