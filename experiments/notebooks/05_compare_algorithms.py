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
# # 05 Compare algorithms
#
# A sweep trains each cell in a workdir of its own; its table has intervals over
# tasks and over seeds, and paired tests. Here two algorithms for two steps, to see
# it work; the real comparison is
# `python -m experiments.sweeps.algorithms --out=runs/algorithms`
# ([what it taught](../2026-11-algorithms/README.md)): name its folder as `OUT`, and
# leave the next cell out.

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


# %%
OUT = RUNS / 'compared'
launch(
    '--config=configs/quickstart.py:tiny',
    '--grid=:algo=grpo;ppo',
    '--grid=seed=0',
    f'--out={OUT}',
    program=('-m', 'experiments.sweeps.grid'),
)

# %%
from IPython.display import Markdown

from experiments.sweeps import results, tables

runs = list(results.read(OUT))
assert runs, f'No finished run in {OUT}.'
Markdown(tables.of_runs(runs))

# %%
from IPython.display import SVG

SVG(str(OUT / 'figure.svg'))

# %% [markdown]
# ## The same as rows
#
# `evaluation.study` reads a whole folder: groups of seeds, pairs, tasks, curves,
# commands. `configs/study.py` writes them as a page and as CSV or Parquet.

# %%
from agentrl import evaluation

study = evaluation.study(OUT, group=['algo.name'])
columns = ('group', 'seeds', 'before', 'mean', 'low', 'high')
[{name: row[name] for name in columns} for row in study.groups]

# %% [markdown]
# ## What the updates did
#
# Entropy per token, the distance that an update moves the policy and the share of
# tokens that clipping stopped: where two algorithms reach the same success, these
# tell them apart. Seeds of an arm are averaged.

# %%
import matplotlib.pyplot as plt
import numpy as np

names = ('policy/entropy', 'policy/approx_kl', 'policy/clip_fraction')
fig, axes = plt.subplots(1, len(names), figsize=(4 * len(names), 3))
for ax, name in zip(axes, names, strict=True):
  for arm in results.arms(runs):
    length = min(len(run.metrics) for run in arm.runs)
    values = [
        [record.get(name, np.nan) for record in run.metrics[:length]]
        for run in arm.runs
    ]
    ax.plot(
        range(1, length + 1),
        np.mean(values, axis=0),
        marker='o',
        label=arm.name,
    )
  ax.set(title=name, xlabel='rl step')
axes[0].legend(fontsize='small')
fig.tight_layout()
