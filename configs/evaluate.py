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
from it bring their environment, their way of talking, their limits and their
tasks along: what is left open here is the run's. `n` is the run's number of
tasks, or else 100, and `temperature=0` is greedy.
"""

from ml_collections import ConfigDict

from agentrl.config import defaults
from configs.common import parse_arg


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(
      arg, model='smollm2-135m', env='', n=0, task_file='', temperature=1.0
  )

  config = defaults('evaluate')
  config.model.name = arg.model
  if arg.env:
    config.env.name = arg.env
  if arg.n:
    config.eval.num_tasks = arg.n
  if arg.task_file:
    config.eval.task_file = arg.task_file
  config.eval.temperature = arg.temperature
  return config
