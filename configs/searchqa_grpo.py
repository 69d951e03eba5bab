r"""GRPO on SearchQA with a growing horizon: the ScalingInter-RL recipe.

Horizon stages, batch, learning rate and KL are those of AgentGym-RL's script
for this environment (arXiv:2509.08755), where they train Qwen2.5-7B-Instruct on
eight GPUs. No run of that size has been made with this code yet. The questions
and the corpus are this project's own; the environment's options take others
(each line of nq.jsonl names its split).

    python launch.py --config=configs/searchqa_grpo.py --workdir=runs/searchqa
    python launch.py --config=configs/searchqa_grpo.py:horizon=fixed,model=DIR \
        --config.env.options.retriever_url=http://gpu:8000/retrieve \
        --config.env.options.questions=nq.jsonl --workdir=runs/nq
    python launch.py --config=configs/searchqa_grpo.py:model=smollm2-135m,tiny \
        --workdir=runs/smoke  # two real steps on a CPU, some minutes

`algo` may be any other name of configs/algorithms.py, with this batch and rate.
"""

from ml_collections import ConfigDict

from configs.common import parse_arg, scaling_inter, shrink


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(
      arg, algo='grpo', model='smollm2-135m', horizon='stepwise', tiny=False
  )

  config = scaling_inter(arg.algo, arg.model)
  config.num_steps = 500
  config.env.name = 'searchqa'
  config.env.options.topk = 3
  config.warmstart.update(episodes=512, horizon=10)
  config.rollout.update(tasks_per_step=32, group_size=4)
  config.horizon.turns = (5, 8, 10)
  config.eval.update(num_tasks=400, horizon=10)

  if arg.tiny:  # two steps, to see that everything works
    shrink(config)
    config.env.options.topk = 1
  if arg.horizon != 'stepwise':  # the original's other script stays at 5
    config.horizon = dict(kind=arg.horizon, turns=config.horizon.turns[:1])
  return config
