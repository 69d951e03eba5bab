r"""GRPO on an agent program: a loop of the openai package that computes with a tool.

    python launch.py --config=experiments/2026-12-program/config.py --workdir=runs/program

From the root of a clone. `algo` is any name of configs/algorithms.py.
"""

from ml_collections import ConfigDict

from configs.common import parse_arg, pretrained, shrink_pretrained

HERE = 'experiments/2026-12-program'


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, algo='grpo', model='smollm2-135m', tiny=False)

  config = pretrained(arg.algo, arg.model)
  config.num_steps = 8
  config.env.name = 'program'
  config.env.options = dict(
      function=f'{HERE}/agent.py:play',
      expert=f'{HERE}/agent.py:answer',
      tasks=f'{HERE}/tasks.jsonl',
  )
  config.agent.update(format='chat', template='chatml')
  config.warmstart.update(episodes=32, epochs=1, horizon=3)
  config.rollout.update(group_size=8, max_completion_tokens=48, max_context=512)
  config.horizon.update(turns=(2, 3))
  config.eval.update(horizon=3)

  if arg.tiny:  # two steps, to see that everything works
    shrink_pretrained(config)
  return config
