"""The embedded engine under the command line of SGLang's launch_server.

    python -m agentrl.serving.launch_server --model-path DIR --port 30000

So `config.sampler.launch` starts it with `module='agentrl.serving.launch_server'`
where there is no SGLang: the same processes, the same protocol, on a CPU.
"""

import argparse
import sys
from collections.abc import Sequence

from agentrl.errors import AgentrlError
from agentrl.http.auth import Keys
from agentrl.models.options import DTYPES, Model
from agentrl.serving import policy_server
from agentrl.serving.options import EmbeddedOptions, PolicyServer


def main(argv: Sequence[str] | None = None) -> int:
  """Serves until SIGTERM or SIGINT; gives the exit code."""
  parser = argparse.ArgumentParser(
      prog='python -m agentrl.serving.launch_server',
      description="Serves a model over SGLang's HTTP protocol.",
      allow_abbrev=False,
  )
  parser.add_argument('--model-path', required=True)
  parser.add_argument(
      '--served-model-name', help="for OpenAI's clients; default: --model-path"
  )
  parser.add_argument('--host', default='127.0.0.1')
  parser.add_argument('--port', type=int, default=30000)
  parser.add_argument('--dtype', default='float32', choices=DTYPES)
  parser.add_argument('--context-length', type=int, help='default: the model')
  parser.add_argument('--max-running-requests', type=int, default=16)
  parser.add_argument('--random-seed', type=int, default=0)
  parser.add_argument(
      '--api-key',
      type=_key,
      help=(
          'for all but health; anybody here can read it in the process list:'
          ' configs/serve_policy.py takes files'
      ),
  )
  parser.add_argument(
      '--admin-api-key', type=_key, help='instead, for routes that change state'
  )
  parser.add_argument(
      '--enable-deterministic-inference',
      action='store_true',
      help='the same reply to the same request, whatever else is served',
  )
  parser.add_argument(
      '--enable-lora',
      action='store_true',
      help="SGLang's; here it is always on",
  )
  for name in ('--max-lora-rank', '--lora-target-modules'):
    parser.add_argument(
        name, nargs='+', help="SGLang's; here an adapter may be of any"
    )
  parser.add_argument(
      '--compile-cache',
      help=(
          "folder of compiled programs, '' for none; default: the user's cache"
      ),
  )
  parser.add_argument(
      '--skip-server-warmup',
      action='store_true',
      help='compile when a request first needs it, not before /health is 200',
  )
  args = parser.parse_args(argv)
  try:
    policy_server.serve(
        Model(name=args.model_path, dtype=args.dtype),
        EmbeddedOptions(
            max_running=args.max_running_requests,
            deterministic=args.enable_deterministic_inference,
        ),
        PolicyServer(
            host=args.host,
            port=args.port,
            name=args.served_model_name,
            max_context=args.context_length or 0,
            seed=args.random_seed,
            warmup=not args.skip_server_warmup,
        ),
        Keys(args.api_key, args.admin_api_key),
        compile_folder=args.compile_cache,
    )
  except AgentrlError as error:
    print(f'{type(error).__name__}: {error}', file=sys.stderr)
    return 2
  return 0


def _key(text: str) -> str:
  if not text:  # as of a variable that is not set
    raise argparse.ArgumentTypeError('is empty; without the flag there is none')
  return text


if __name__ == '__main__':
  sys.exit(main())
