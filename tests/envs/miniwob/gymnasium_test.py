"""Our episodes against the wheel's own Gymnasium environment, over Selenium.

    python -m venv DIR && DIR/bin/pip install miniwob==1.1.0
    AGENTRL_MINIWOB_PYTHON=DIR/bin/python \
        MINIWOB_CHROME_BINARY=/usr/lib/chromium/chromium \
        MINIWOB_CHROMEDRIVER=/usr/bin/chromedriver \
        python -m pytest -m slow tests/envs/miniwob/gymnasium_test.py

Both get the same clicks at the same points under the same seeds; objectives, ends
and raw rewards must be equal after each.
"""

import json
import os
import random
import subprocess

import pytest

from agentrl.envs.miniwob import env as env_lib, tasks
from agentrl.envs.miniwob.env import MiniWoBFactory

PYTHON = os.environ.get('AGENTRL_MINIWOB_PYTHON')
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PYTHON is None, reason='needs $AGENTRL_MINIWOB_PYTHON'),
]

SEEDS = range(3)
CLICKS = 6
# Where one click can end the episode, well or badly, and where it cannot.
PAGES = (
    'click-button', 'click-button-sequence', 'click-checkboxes', 'click-dialog',
    'click-dialog-2', 'click-link', 'click-option', 'click-shape',
    'click-tab-2-easy', 'click-test', 'click-test-2', 'click-test-transfer',
    'click-widget', 'click-color', 'count-shape', 'email-inbox-delete',
    'enter-text', 'focus-text', 'focus-text-2', 'grid-coordinate',
    'identify-shape', 'login-user', 'multi-layouts', 'odd-or-even',
    'right-angle', 'circle-center', 'find-midpoint', 'search-engine',
    'social-media', 'tic-tac-toe', 'unicode-test', 'visual-addition',
)  # fmt: skip
_CHILD = """
import json, sys
import gymnasium, miniwob
from miniwob.action import ActionTypes

gymnasium.register_envs(miniwob)
said = []
for page, seed, clicks in json.load(sys.stdin):
  env = gymnasium.make(f'miniwob/{page}-v1').unwrapped
  observation, _ = env.reset(seed=seed, options={'data_mode': 'train'})
  steps = []
  for x, y in clicks:
    action = env.create_action(ActionTypes.CLICK_COORDS, coords=[x, y])
    _, _, done, _, info = env.step(action)
    steps.append([done, info['raw_reward']])
    if done:
      break
  said.append([observation['utterance'], steps])
  env.close()
json.dump(said, sys.stdout)
"""


def jobs():
  rng = random.Random(0)
  return [
      (page, seed, [
          (rng.randrange(4, 156), rng.randrange(52, 206)) for _ in range(CLICKS)
      ])
      for page in PAGES
      for seed in SEEDS
  ]  # fmt: skip


def ours(factory, page, seed, clicks):
  """The objective, and end and raw reward after each click."""
  env = factory.make()
  env.reset(tasks.id_of(page, seed), 0)

  async def click(x, y):
    await env._episode._tabs.page.mouse.click(x, y)
    await env._episode._tabs.settle()
    return await env._episode._tabs.page.evaluate(env_lib._STATE)

  steps = []
  for x, y in clicks:
    steps.append(env._episode._browser.call(click(x, y), 30.0))
    if steps[-1][0]:
      break
  env.close()
  return [env._episode.objective, steps]


def test_points_clicked_at_random_earn_what_they_earn_there():
  child = subprocess.run(
      [PYTHON, '-c', _CHILD],
      input=json.dumps(jobs()),
      capture_output=True,
      text=True,
      timeout=1800,
  )
  assert child.returncode == 0, child.stderr[-2000:]
  theirs = json.loads(child.stdout)
  factory = MiniWoBFactory(tasks='all', episodes=1)
  try:
    found = [ours(factory, *job) for job in jobs()]
  finally:
    factory.close()
  different = {
      (page, seed): (theirs_, ours_)
      for (page, seed, _), theirs_, ours_ in zip(
          jobs(), theirs, found, strict=True
      )
      if theirs_ != ours_
  }
  assert not different
  rewards = {step[1] for _, steps in theirs for step in steps}
  assert {-1, 0, 1} <= rewards  # random clicks meet all three
