"""Checks of a machine for a config: what is missing, and the remedy.

Each check yields findings and takes at most a few seconds; none starts a server,
loads a model or writes a file.
"""

import contextlib
import importlib.metadata
import pathlib
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator

import jax
import psutil
from packaging.requirements import Requirement

from agentrl import envs, shipped
from agentrl.data import packing
from agentrl.errors import AgentrlError, ConfigError
from agentrl.models.config import TransformerConfig
from agentrl.parallel import meshes, ranks
from agentrl.planning import card, network, plan
from agentrl.planning.finding import FAULT, OK, WARNING, Examined, Finding

_PYTHON = ((3, 11), (3, 13))
_ANSWER_S = 3.0  # of the hub
_GIB = 2**30
_TRAINED = 16  # bytes a parameter: float32 weights, gradient, two moments
_SAVED = 12  # bytes a parameter of a checkpoint: weights, two moments
_RECORDS = _GIB  # episodes, metrics and compiled programs of a run


Check = Callable[[Examined], Iterator[Finding]]


def examine(examined: Examined) -> list[Finding]:
  """Findings of all checks."""
  return [finding for check in CHECKS for finding in check(examined)]


def versions(examined: Examined) -> Iterator[Finding]:
  """Python and the packages of the requirement files."""
  python = sys.version_info[:2]
  version = f'Python {python[0]}.{python[1]}'
  if _PYTHON[0] <= python <= _PYTHON[1]:
    yield Finding(OK, 'python', version)
  else:
    yield Finding(
        FAULT,
        'python',
        version,
        'Make the environment with Python 3.11 to 3.13.',
    )
  files = [shipped.words('requirements.txt')]
  for env in examined.environments:
    with contextlib.suppress(AgentrlError):  # `programs` says it
      files += envs.get(env.name).requirement_files
  for file in dict.fromkeys(files):
    wrong = list(_wrong_packages(shipped.ROOT / file))
    options = '--no-deps ' if file.endswith('data.txt') else ''
    if wrong:
      remedy = f'pip install {options}-r {file}'
      yield Finding(FAULT, 'packages', f'{file}: {", ".join(wrong)}', remedy)
    else:
      yield Finding(OK, 'packages', file)


def _wrong_packages(file: pathlib.Path) -> Iterator[str]:
  """Requirements of a file that this environment does not fulfil."""
  for line in file.read_text().splitlines():
    text = line.partition('#')[0].strip()
    if not text or text.startswith('-'):
      continue
    wanted = Requirement(text)
    if wanted.marker is not None and not wanted.marker.evaluate():
      continue
    try:
      version = importlib.metadata.version(wanted.name)
    except importlib.metadata.PackageNotFoundError:
      yield f'{wanted.name} is missing'
      continue
    if not wanted.specifier.contains(version, prereleases=True):
      yield f'{wanted.name} {version} is not {wanted.specifier}'


def shared_card(examined: Examined) -> Iterator[Finding]:
  """A card for the trainer and servers that the run starts beside it."""
  config = examined.config
  if not examined.values.get('sampler.launch.python'):
    return
  gpu, shape = card.find(), _shape(examined)
  if gpu is None or shape is None:
    return
  try:
    shares = card.shares(config, shape, gpu)
  except ConfigError as error:
    yield Finding(FAULT, 'shared card', str(error), 'Mend that fraction.')
    return
  if shares is not None:
    level = FAULT if shares.fault else OK
    yield Finding(level, 'shared card', shares.words, shares.fault or '')


def devices(examined: Examined) -> Iterator[Finding]:
  """Accelerators, and the mesh over them."""
  try:
    ranks.check_devices()
  except ConfigError as error:
    yield Finding(FAULT, 'devices', str(error), 'unset JAX_PLATFORMS')
    return
  hardware = jax.devices()
  words = f'{len(hardware)} x {hardware[0].device_kind}'
  if hardware[0].platform == 'cpu' and shutil.which('nvidia-smi'):
    yield Finding(
        WARNING,
        'devices',
        f'{words}, and nvidia-smi is here: jax does not see a GPU',
        f'pip install -r {shipped.requirements("cuda")}',
    )
  else:
    yield Finding(OK, 'devices', words)
  if 'mesh.data' in examined.values:
    try:
      meshes.make(examined.config.mesh, packing.LENGTHS)
    except ConfigError as error:
      yield Finding(
          FAULT,
          'mesh',
          str(error),
          'Set config.mesh to these devices; --dry_run plans it for others.',
      )


def _has_devices() -> bool:
  """False where `devices` has said that there are none."""
  try:
    ranks.check_devices()
  except ConfigError:
    return False
  return True


def memory(examined: Examined) -> Iterator[Finding]:
  """Weights and optimizer against what is free; activations come on top."""
  count = _parameters(examined)
  if count is None or not _has_devices():
    return
  learns = 'optim.lr' in examined.values
  stats = jax.local_devices()[0].memory_stats() or {}
  free, where = psutil.virtual_memory().available, 'free memory'
  if 'bytes_limit' in stats:
    free = stats['bytes_limit'] * len(jax.devices())
    where = 'device memory'
  # The engine has a copy; without learning it is the only one.
  need = count * (_TRAINED * learns + 4)
  words = f'{need / _GIB:.1f} GiB for {count:,} parameters, of'
  words += f' {free / _GIB:.1f} GiB {where}'
  if need < free:
    yield Finding(OK, 'memory', words)
  else:
    yield Finding(
        FAULT,
        'memory',
        words,
        'A smaller model.name, model.lora.rank=8, or more devices; --dry_run'
        ' says what each of a mesh needs.',
    )


def disk(examined: Examined) -> Iterator[Finding]:
  """Room for checkpoints and records below the workdir."""
  workdir = examined.workdir
  place = next(p for p in (workdir, *workdir.parents) if p.exists())
  if not place.is_dir() or not _writable(place):
    yield Finding(
        FAULT,
        'disk',
        f'{place} cannot be written',
        'Another --workdir, or the rights to write there.',
    )
    return
  keep = examined.values.get('checkpoint.keep', 0)
  # One more while it is being written.
  saved = (keep + 1) * _SAVED * (_parameters(examined) or 0)
  need = _RECORDS + (saved if keep else 0)
  free = shutil.disk_usage(place).free
  words = f'{free / _GIB:.1f} GiB free at {place}, {need / _GIB:.1f} needed'
  if need < free:
    yield Finding(OK, 'disk', words)
  else:
    yield Finding(
        FAULT, 'disk', words, 'Another --workdir, or a lower checkpoint.keep.'
    )


def programs(examined: Examined) -> Iterator[Finding]:
  """Java, a browser, whatever an environment starts here."""
  found: dict[str, Finding] = {}
  for env in examined.environments:
    if env.urls:
      continue
    try:
      spec = envs.get(env.name)
      options = spec.check_options(env.options)
    except AgentrlError as error:
      yield Finding(FAULT, 'environment', str(error), 'Mend config.env.')
      continue
    for program in spec.programs:
      try:
        description = program.find(options)
      except AgentrlError as error:
        fault = Finding(FAULT, program.name, str(error), program.remedy)
        found[program.name] = fault
      else:
        ok = Finding(OK, program.name, description)
        found.setdefault(program.name, ok)
  yield from found.values()


def model(examined: Examined) -> Iterator[Finding]:
  """A model of the hub: in the cache, or a network to fetch it by."""
  name = examined.values.get('model.name')
  if name is None or '/' not in name or '://' in name or ';' in name:
    return
  if pathlib.Path(name).exists():
    yield Finding(OK, 'model', name)
    return
  from huggingface_hub import try_to_load_from_cache

  if isinstance(try_to_load_from_cache(name, 'config.json'), str):
    yield Finding(OK, 'model', f'{name} is in the cache')
    return
  try:
    socket.create_connection(('huggingface.co', 443), _ANSWER_S).close()
  except OSError as error:
    yield Finding(
        FAULT,
        'model',
        f'{name} is no folder here, and huggingface.co does not answer'
        f' ({error.strerror or error})',
        'Mend model.name, or fetch the model elsewhere and name its folder.',
    )
  else:
    yield Finding(WARNING, 'model', f'{name} will be fetched from the hub')


def _parameters(examined: Examined) -> int | None:
  """Parameters of the model; None where there is none, or it is not known."""
  shape = _shape(examined)
  return None if shape is None else shape.num_params


def _shape(examined: Examined) -> TransformerConfig | None:
  """The shape of the model; None where there is none, or it is not known."""
  name = examined.values.get('model.name')
  if name is None or '://' in name or ';' in name:
    return None
  return plan.find_shape(examined.config.model)


def _writable(place: pathlib.Path) -> bool:
  try:
    tempfile.TemporaryFile(dir=place).close()
  except OSError:
    return False
  return True


CHECKS: tuple[Check, ...] = (
    versions,
    shared_card,  # before jax takes its share
    devices,
    memory,
    disk,
    network.ports,
    programs,
    model,
    network.tokens,
    network.urls,
)
