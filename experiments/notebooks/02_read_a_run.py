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
# # 02 Read a run
#
# Whatever trains, its workdir has one record a step, every episode, and a summary.
# Run notebook 01 first, or name another workdir below.

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

# %%
import json

workdir = RUNS / 'quickstart'
assert (workdir / 'metrics.jsonl').exists(), f'No run in {workdir}: see 01.'
lines = (workdir / 'metrics.jsonl').read_text().splitlines()
metrics = [json.loads(line) for line in lines]
names = sorted({name for record in metrics for name in record})
print(len(metrics), 'steps;', len(names), 'metrics in groups:')
print(sorted({name.partition('/')[0] for name in names if '/' in name}))

# %% [markdown]
# ## Is it learning, and is it healthy?
#
# Success of what was collected and on held-out tasks; how far an update moves the
# policy; how well sampler and trainer agree; what a step's time went into.

# %%
import matplotlib.pyplot as plt


def series(name):
  """Steps and values of a metric, where it was recorded."""
  pairs = [(r['step'] + 1, r[name]) for r in metrics if name in r]
  return list(zip(*pairs, strict=True)) or [(), ()]


panels = {
    'success': ('rollout/success', 'eval/success'),
    'policy': ('policy/entropy',),
    'update': ('policy/approx_kl', 'policy/clip_fraction', 'sampler/kl'),
    'share of a step': (
        'time/collect_share',
        'time/update_share',
        'time/push_share',
    ),
}
fig, axes = plt.subplots(1, len(panels), figsize=(4 * len(panels), 3))
for ax, (title, chosen) in zip(axes, panels.items(), strict=True):
  for name in chosen:
    steps, values = series(name)
    ax.plot(steps, values, marker='o', label=name)
  ax.set(title=title, xlabel='rl step')
  ax.legend(fontsize='small')
fig.tight_layout()

# %%
last = metrics[-1]
for name in (
    'time/tokens_per_s',
    'time/memory_gib',
    'rollout/stop_horizon',
    'rollout/tied_groups',
    'train/skipped',
):
  print(f'{name:24} {last[name]:.3g}')

# %% [markdown]
# ## One episode
#
# What the policy saw, said and did. `stop_reason` tells an environment's end
# (terminated) from a limit of ours.

# %%
from agentrl.data import episodes

played = list(episodes.read(episodes.step_path(workdir, 'train', 0)))
episode = played[0]
print(episode.episode_id, episode.env, 'task', episode.task_id)
print('stop_reason', episode.stop_reason, '| return', episode.episode_return)
for message in episode.prompt:
  print(f'\n[{message.role}] {message.content}')
for turn in episode.turns:
  print(f'\n[completion] {turn.completion!r} -> action {turn.action!r}')
  print(f'[observation] {turn.observation} (reward {turn.reward:g})')
