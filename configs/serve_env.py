r"""Serves one environment over HTTP, for runs elsewhere or AgentGym's clients.

    python launch.py --config=configs/serve_env.py:env=textcraft,port=8000
    python launch.py --config=configs/serve_env.py:env=babyai,port=8001,expert
    python launch.py --config=configs/serve_env.py:env=babyai,workers=4

Point a run at it with --config.env.url=http://HOST:8000. Prints one line of
JSON when it is ready and ends with Ctrl-C.
"""

from ml_collections import ConfigDict

from agentrl.config import defaults
from configs.common import parse_arg


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(
      arg, env='textcraft', port=8000, host='127.0.0.1', workers=1, expert=False
  )

  config = defaults('serve_env')
  config.env.name = arg.env
  config.serve.update(
      host=arg.host, port=arg.port, workers=arg.workers, expert=arg.expert
  )
  return config
