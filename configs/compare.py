r"""Compares evaluations in pairs: differences, tests, what was won and lost.

    python launch.py --config=configs/compare.py:a=runs/e1,b=runs/e2 \
        --workdir=runs/e1-e2
    python launch.py --config='configs/compare.py:a=E1,b=E2:expert,more=E3;E4' \
        --workdir=runs/four
    python launch.py --config='configs/compare.py:a=E1;E2;E3,b=E4;E5,unit=seed' \
        --workdir=runs/algorithms
    python launch.py --config=configs/compare.py:plan,rate=0.6,difference=0.1
    python launch.py --config=configs/compare.py:plan,a=runs/e1,difference=0.1

E1 is the workdir of an evaluation, with all its policies, and E1:NAME one of
them. Each is compared with each later one, paired by task and sample, on the
tasks that both have played. With `unit=seed` a and b are runs of two algorithms,
and intervals over training seeds stand beside those over tasks. With `plan` the
table says how many tasks, at k samples each, show a difference in success; what
is not said of `rate`, `icc` and `agreement` is estimated from a and b.
"""

from ml_collections import ConfigDict

from agentrl.config import defaults
from configs.common import parse_arg


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(
      arg,
      a='',
      b='',
      more='',
      unit='task',
      plan=False,
      difference=0.1,
      rate=float,
      icc=float,
      agreement=float,
  )

  config = defaults('compare')
  for name in ('a', 'b', 'more'):
    config.compare[name] = tuple(filter(None, arg[name].split(';')))
  config.compare.update(unit=arg.unit, plan=arg.plan)
  config.plan.difference = arg.difference
  for name in ('rate', 'icc', 'agreement'):
    if arg[name] is not None:  # else estimated, or the default of the plan
      config.plan[name] = arg[name]
  return config
