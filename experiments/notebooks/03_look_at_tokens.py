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
# # 03 Look at tokens
#
# Mask bugs do not crash; they train the wrong tokens. Every token of an episode
# stands beside its mask, advantage and log-probabilities. Run notebook 01 first.

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
import numpy as np

from agentrl.data import episodes

workdir = RUNS / 'quickstart'
path = episodes.step_path(workdir, 'train', 0)
assert path.exists(), f'No run in {workdir}: see 01.'
played = list(episodes.read(path))
with np.load(path.with_suffix('.npz')) as arrays:
  trained = dict(arrays)  # what the update used, [episodes, tokens]
{name: array.shape for name, array in trained.items()}

# %% [markdown]
# The mask is True exactly on tokens that the sampler returned: as many as the
# turns say. Where it is False nothing is learnt, whatever the environment wrote.

# %%
for row, episode in enumerate(played):
  mask = np.array(episode.completion_mask)
  assert mask.sum() == sum(turn.completion_tokens for turn in episode.turns)
  advantages = trained['advantages'][row, : len(mask)]
  assert not advantages[~mask].any()
print(
    'tokens',
    sum(len(e.tokens) for e in played),
    'of which the policy chose',
    sum(sum(e.completion_mask) for e in played),
)

# %% [markdown]
# Sampler and trainer compute the same log-probabilities, each by programs of its
# own: the difference is rounding.

# %%
difference = [
    np.abs(trained['old_logprobs'][row, : len(e.tokens)] - e.sampler_logprobs)[
        np.array(e.completion_mask)
    ].max()
    for row, e in enumerate(played)
]
print(f'largest difference {max(difference):.1e}')

# %% [markdown]
# The inspector shows it all, in the terminal and as a page: chosen tokens by their
# advantage, inserted ones grey, every number on hover.

# %%
page = RUNS / 'tokens.html'
launch(
    f'--config=configs/inspect.py:episodes={path}',
    f'--config.inspect.html={page}',
)

# %%
from IPython.display import HTML

HTML(page.read_text())
