"""A program that writes a run's tokenizer, for processes that import no jax.

Its arguments are the workdir and the folder to write to.
"""

import pathlib
import sys

from agentrl.errors import AgentrlError
from agentrl.training import language_model


def main(run: str, folder: str) -> int:
  """Writes it to `folder`; gives the exit code."""
  try:
    language_model.load_run_tokenizer(pathlib.Path(run)).save(folder)
  except AgentrlError as error:
    print(error, file=sys.stderr)
    return 2
  return 0


if __name__ == '__main__':
  sys.exit(main(*sys.argv[1:]))
