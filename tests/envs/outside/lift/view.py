"""The viewer's blocks of the lift."""

import re

from agentrl.envs import blocks


def view(moment):
  floor = re.search(r'on floor (\d)', moment.observation)
  return [blocks.facts('Lift', floor=floor and floor[1], probed=moment.probed)]


def refuses(observation):
  return observation.startswith('Say ')
