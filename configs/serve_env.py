r"""Serves one environment over HTTP, for runs elsewhere or AgentGym's clients.

    python launch.py --config=configs/serve_env.py:env=textcraft,port=8000
    python launch.py --config=configs/serve_env.py:env=babyai,port=8001,expert
    python launch.py --config=configs/serve_env.py:env=babyai,workers=4

Point a run at it with --config.env.url=http://HOST:8000. Prints one line of
JSON when it is ready and ends with Ctrl-C.
"""

from ml_collections import ConfigDict, config_dict

from configs.common import parse_arg


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(
      arg, env='textcraft', port=8000, host='127.0.0.1', workers=1, expert=False
  )

  config = ConfigDict()
  config.mode = 'serve_env'

  # Options are the environment's own; ENVS in agentrl/envs lists them.
  config.env = dict(name=arg.env, options=dict())
  config.serve = dict(
      host=arg.host,
      port=arg.port,
      expert=arg.expert,  # whether to offer the expert's actions
      lease_s=600.0,  # an episode that nobody used for so long is closed
      max_episodes=4096,  # most that may be live at a time
      deadline_s=120.0,  # a call that takes so long ends its episode
      workers=arg.workers,  # processes; more where the simulator is bound to them
      # Holds what requests must carry as "Authorization: Bearer TOKEN"; runs
      # name the same file in config.env.token_file.
      token_file=config_dict.placeholder(str),
  )
  return config
