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
# # 04 An environment of your own
#
# An environment is a Python file: `reset`, `step`, `observation`, and a
# specification. This one shows a word, and asks for it backwards.
# [The guide](../../agentrl/envs/README.md) has a longer one.

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
CODE = '''"""Write a word backwards."""

import itertools
import random

from agentrl.envs.base import Independent
from agentrl.envs.dialect import Dialect
from agentrl.envs.prompts import Words
from agentrl.envs.spec import EnvSpec
from agentrl.errors import EnvError
from agentrl.types import StepResult

WORDS = [''.join(letters) for letters in itertools.permutations('abcdefgh', 3)]
random.Random(0).shuffle(WORDS)
# No word is both learnt from and asked for in an evaluation.
SPLITS = {'train': range(100, 336), 'dev': range(64, 100), 'test': range(64)}


class Backwards:

  def reset(self, task_id, seed):
    if not 0 <= task_id < len(WORDS):
      raise EnvError(f'There is no task {task_id}; ids are 0 to {len(WORDS) - 1}.')
    self._word = WORDS[task_id]
    self._text = f'Write backwards: {self._word}'
    return self._text

  def observation(self):
    return self._text

  def step(self, action):
    right = action.strip() == self._word[::-1]
    self._text = 'Right.' if right else f'No. Write backwards: {self._word}'
    return StepResult(self._text, float(right), right, success=right)

  def available_actions(self):
    return ['{letters}']

  def expert_action(self):
    return self._word[::-1]

  def close(self):
    pass


SPEC = EnvSpec(
    name='backwards',
    dialect=Dialect(success=lambda total: total >= 1.0),
    words=Words(full='Write each word backwards.', compact='Backwards.'),
    open_factory=lambda: Independent(Backwards),
    list_tasks=lambda split: SPLITS[split],
)
'''
folder = RUNS / 'own'
folder.mkdir(parents=True, exist_ok=True)
(folder / 'backwards.py').write_text(CODE)

# %% [markdown]
# Played by hand, without a server.

# %%
sys.path.insert(0, str(folder))
import backwards

env = backwards.Backwards()
print(env.reset(1, seed=0))
print(env.step('abc'))
print(env.step(env.expert_action()))

# %% [markdown]
# Any config takes it by module and object, `backwards:SPEC`: the run serves it over
# HTTP, imitates its expert and learns, as with the built-in ones. The two steps of
# `:tiny` show that everything works, and no more: their success says nothing. For
# numbers leave `:tiny` out, and evaluate on all 64 test words, `eval.num_tasks=64`;
# [how much an environment needs](../../agentrl/envs/README.md#an-environment-of-your-own)
# is in the guide.

# %%
path = os.pathsep.join(
    filter(None, (str(folder), os.environ.get('PYTHONPATH')))
)
workdir = RUNS / 'backwards'
launch(
    '--config=configs/quickstart.py:tiny',
    f'--workdir={workdir}',
    '--config.env.name=backwards:SPEC',
    '--config.env.options={}',
    '--config.eval.num_tasks=8',
    PYTHONPATH=path,
)

# %%
from agentrl.data import episodes

for episode in list(episodes.read(workdir / 'episodes' / 'warmstart.jsonl'))[
    :3
]:
  turn = episode.turns[-1]
  print(
      f'{episode.prompt[-1].content!r} -> {turn.action!r}: {turn.observation}'
  )
  assert episode.success
