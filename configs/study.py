r"""Lays out a study: groups of runs, pairs, tasks, curves, commands, as one page.

    python launch.py --config=configs/study.py:folder=runs --workdir=runs/study
    python launch.py --config='configs/study.py:folder=runs,group=horizon.kind;algo.name' \
        --workdir=runs/study
    python launch.py --config=configs/study.py:folder=runs,parquet --workdir=runs/study

Runs whose configs differ in the seed alone are a group, or those that are equal in
the fields of `group`. `study.html` needs no server; beside it each table lies as CSV,
with `parquet` also as Parquet (third_party/requirements/parquet.txt). Curves need
matplotlib (third_party/requirements/sweeps.txt).
"""

from ml_collections import ConfigDict

from agentrl.config import defaults
from configs.common import parse_arg


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, folder='', group='', parquet=False)

  config = defaults('study')
  config.study.folder = arg.folder
  config.study.group = tuple(filter(None, arg.group.split(';')))
  config.study.parquet = arg.parquet
  return config
