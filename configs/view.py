r"""Shows runs, episodes and tokens in a browser.

    python launch.py --config=configs/view.py --workdir=runs
    python launch.py --config=configs/view.py:port=7001 --workdir=runs/quickstart

Prints a link and ends with Ctrl-C. The folder is a workdir or has workdirs
below it; what runs still write appears as it comes. It listens on loopback;
elsewhere only with --config.view.token_file=FILE.
"""

from ml_collections import ConfigDict

from agentrl.config import defaults
from configs.common import parse_arg


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, port=7000, host='127.0.0.1')

  config = defaults('view')
  config.view.update(host=arg.host, port=arg.port)
  return config
