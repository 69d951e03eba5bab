"""Evaluations that nobody played, written as an evaluation writes them."""

import pathlib

from agentrl.data import episodes as episodes_lib
from agentrl.evaluation import results
from agentrl.evaluation.compare.recorded import Played, Recorded
from agentrl.evaluation.compare.sides import Side
from tests import fakes

SUCCESS = 'The corridor ends.'


def episode(
    policy, env, task, sample, success, *, reward=None, progress=None, seed=0
):
  """An episode of one turn and no tokens; `success=None`: it failed."""
  valid = success is not None
  reward = float(bool(success)) if reward is None else reward
  return fakes.make_episode(
      (reward,),
      episode_id=f'{policy}-{env}-{task}-{sample}',
      env=env,
      task_id=task,
      sample=sample,
      split='test',
      seed=seed,
      success=bool(success),
      stop_reason='terminated' if valid else 'env_error',
      error=None if valid else 'down',
      turns=(fakes.make_turn(reward, progress=progress),),
      tokens=(),
      completion_mask=(),
      sampler_logprobs=(),
  )


def panel(env='textcraft', *, task_ids, samples=1, seed=0, **fields):
  """A panel of an environment; each task is of one kind by default."""
  task_ids = tuple(task_ids)
  values = dict(
      env=env,
      options={},
      split='test',
      task_file=None,
      task_ids=task_ids,
      subtasks=('easy',) * len(task_ids),
      clusters=None,
      samples=samples,
      seed=seed,
      horizon=10,
      success=SUCCESS,
      hash=results.panel_hash(
          env,
          task_options={},
          task_ids=task_ids,
          samples=samples,
          seed=seed,
      ),
  )
  return results.Panel(**(values | fields))


def write(directory, episodes, panels, *, config=None, **policies):
  """Writes an evaluation.

  Args:
    directory: its workdir, which is made.
    episodes: those of each policy, by its name.
    panels: what was played.
    config: of the evaluation.
    **policies: fields of the policies' records, by name.
  """
  for name, played in episodes.items():
    for found in panels:
      episodes_lib.write(
          results.episodes_path(directory, name, found.env),
          [e for e in played if e.env == found.env],
          tokens=False,
      )
  records = tuple(
      results.PolicyRecord(
          **dict(name=name, kind='model', source=name) | policies.get(name, {})
      )
      for name in episodes
  )
  found = results.Results(
      config=config or {}, policies=records, panels=tuple(panels), rows=()
  )
  directory.mkdir(parents=True, exist_ok=True)
  results.write(directory, found)
  return directory


def simple(directory, outcomes, *, name='policy', env='textcraft', **fields):
  """Writes an evaluation of one policy in one environment.

  Args:
    directory: its workdir.
    outcomes: success of each sample of each task, `[tasks][samples]`.
    name: of the policy.
    env: of the environment.
    **fields: of the panel.
  """
  return write(
      directory,
      {
          name: [
              episode(name, env, task, sample, success)
              for task, samples in enumerate(outcomes)
              for sample, success in enumerate(samples)
          ]
      },
      [
          panel(
              env,
              task_ids=range(len(outcomes)),
              samples=len(outcomes[0]),
              **fields,
          )
      ],
  )


def side(outcomes, *, label='a', env='textcraft', **fields):
  """A side of one policy, in memory; arguments as `simple` has them."""
  found = panel(
      env, task_ids=range(len(outcomes)), samples=len(outcomes[0]), **fields
  )
  played = {
      (task, sample): Played(
          f'{label}-{task}-{sample}',
          *(None if x is None else float(x) for x in (success, success)),
          None,
      )
      for task, samples in enumerate(outcomes)
      for sample, success in enumerate(samples)
  }
  policy = results.PolicyRecord(name=label, kind='model', source=label)
  run = Recorded(pathlib.Path(label), policy, {}, {env: found}, {env: played})
  return Side(label, [run])
