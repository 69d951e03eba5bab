"""Plays episodes of an environment of verifiers, for the adapter that started it.

    python run.py CONFIG_JSON NUM_TASKS

It runs under a Python that has verifiers and imports nothing of agentrl. Lines of JSON
come in, {"id": 1, "task": 0, "url": BASE_URL}: an episode of a task whose policy is an
OpenAI endpoint. Lines go out: {"ready": NUM_TASKS} once, and for each episode {"id": 1,
"reward": 1.0} or {"id": 1, "error": "words"}. It ends with its standard input.
"""

import asyncio
import itertools
import json
import os
import sys

import verifiers.v1 as vf
from verifiers.v1.configs.agent import agent_config_fields

HARNESS = 'agentrl_chat'
KEY = 'OPENAI_API_KEY'
MODEL = 'policy'


def load(config):
  """The environment of a config, whose agents run here and chat."""
  taskset = config['taskset']['id']
  made = dict(config)
  # A taskset may bring a harness of its own.
  own = vf.default_harness_id(taskset) == taskset
  roles = vf.env_config_type(taskset, config.get('id', ''))()
  for role in agent_config_fields(roles):
    agent = {'runtime': {'type': 'subprocess'}, **made.get(role, {})}
    made[role] = agent if own else {'harness': {'id': HARNESS}, **agent}
  return vf.load_environment(vf.resolve_env_config(made))


def say(**values):
  """Writes a line of JSON."""
  OUT.write(json.dumps(values) + '\n')
  OUT.flush()


async def play(env, task, asked):
  """One episode; says its reward, or why it has none."""
  client = vf.EvalClientConfig(base_url=asked['url'], api_key_var=KEY)
  (slot,) = env.slots(task)
  try:
    episode = await env.run_slot(
        slot, vf.ModelContext(model=MODEL, client=client)
    )
    errors = [*episode.errors, *(x for t in episode.traces for x in t.errors)]
    if not episode.ok:
      words = errors[-1].message if errors else 'it is not complete'
      say(id=asked['id'], error=f'{words}'[:1000])
      return
    rewards = [t.reward for t in episode.traces if t.agent.trainable]
    say(id=asked['id'], reward=sum(rewards) / len(rewards))
  except Exception as error:  # whatever an environment does
    say(id=asked['id'], error=f'{type(error).__name__}: {error}'[:1000])


async def main(config, num_tasks):
  """Plays what is asked for until there is no more."""
  env = load(config)
  tasks = list(itertools.islice(env.taskset, num_tasks))
  async with env.serving():
    say(ready=len(tasks))
    loop = asyncio.get_running_loop()
    running = set()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
      asked = json.loads(line)
      running.add(
          job := asyncio.create_task(play(env, tasks[asked['task']], asked))
      )
      job.add_done_callback(running.discard)
    for job in running:
      job.cancel()


if __name__ == '__main__':
  # What an environment prints is no line of ours.
  OUT = os.fdopen(os.dup(1), 'w')
  os.dup2(2, 1)
  os.environ.setdefault(KEY, 'agentrl')
  asyncio.run(main(json.loads(sys.argv[1]), int(sys.argv[2])))
