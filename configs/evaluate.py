r"""Evaluates a policy on a fixed list of held-out tasks, with an interval.

    python launch.py --config=configs/evaluate.py:model=runs/quickstart \
        --workdir=runs/quickstart-eval
    python launch.py --config=configs/evaluate.py:model=smollm2-135m,env=textcraft \
        --workdir=runs/smollm2-textcraft
    python launch.py --config=configs/evaluate.py:model=runs/quickstart/checkpoints/4 \
        --workdir=runs/quickstart-eval-4
    python launch.py --config=configs/evaluate.py:task_file=textcraft_test.json,n=100 \
        --workdir=runs/smollm2-items  # an item file of AgentGym

The workdir of a training run, its checkpoints/N and a folder that was exported
from it bring their environment, their way of talking and their limits along;
`env` is for other models, and `temperature=0` is greedy.
"""

from ml_collections import ConfigDict, config_dict

from configs.common import agent, begin, parse_arg, sampler, trained_with


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(
      arg,
      model='smollm2-135m',
      env='textcraft',
      n=100,
      task_file='',
      temperature=1.0,
  )

  config = begin('evaluate')
  config.env = dict(
      name=arg.env,
      url=config_dict.placeholder(str),  # none: a child process serves it
      retry_s=60.0,  # how long a server there may be away
      options={},
  )
  config.agent = agent('react', 'full')
  config.model = dict(name=arg.model, dtype='float32')
  config.sampler = sampler(64)
  config.rollout = dict(
      max_completion_tokens=256,
      max_context=4096,
      concurrency=64,
  )
  config.eval = dict(
      num_tasks=arg.n,
      horizon=30,
      split='test',
      task_file=config_dict.placeholder(str),  # none: the split's list
      seed=0,
      samples=1,
  )
  run = trained_with(arg.model)
  if run is not None:
    config.eval = _section(run['eval'])
    # What the config of an older run does not list can be given all the same.
    for section in ('env', 'agent'):
      config[section] = _section(config[section].to_dict() | run[section])
    for name in config.rollout:  # temperature and the like belong to training
      config.rollout[name] = run['rollout'][name]
    config.eval.num_tasks = arg.n
    if 'task_file' in config.env:  # tasks that it trained on
      del config.env.task_file
  if arg.task_file:
    config.eval.task_file = arg.task_file
  config.eval.temperature = arg.temperature
  return config


def _section(values: dict) -> ConfigDict:
  """A recorded section, in which nulls are texts that nobody gave yet."""
  return ConfigDict({
      key: config_dict.placeholder(str) if value is None else value
      for key, value in values.items()
  })
