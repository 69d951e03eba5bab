"""Hugging Face model directories: config.json and safetensors, without torch."""

import contextlib
import json
import pathlib
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import safetensors

from agentrl.errors import WeightsError
from agentrl.models.config import TransformerConfig
from agentrl.weights import (
    bounds,
    families,
    hf_config,
    mxfp4,
    names,
    shards,
    stacked_experts,
)

Params = Any

_CONFIG = 'config.json'
# Most bytes of a file: servers read files in parallel, and 1 GB fits any disk.
SHARD_BYTES = 10**9
_THREADS = 4
# Types that are read without dequantisation.
_READABLE = ('F64', *shards.DTYPES.values())
_MOST_JSON = 2**26  # bytes; the index of a model of 10^12 parameters has 10 MB

# Buffers of old files; computed, not learnt.
_IGNORED = ('rotary_emb.inv_freq',)
# Models of text and images: prefix of the text part's names -> that in a model of
# text; and the prefixes of the other parts.
_TEXT_PREFIXES = {'language_model.': '', 'model.language_model.': 'model.'}
_IMAGE_PREFIXES = tuple(
    prefix + part
    for prefix in ('', 'model.')
    for part in (
        *('vision_tower.', 'multi_modal_projector.', 'visual.'),
        *('embed_vision.', 'audio_tower.', 'embed_audio.', 'vision_embedder.'),
    )
)
# Layers that guess several tokens at once, beside the model.
_OTHER_PREFIXES = (*_IMAGE_PREFIXES, 'mtp.')


def load_config(directory: str | pathlib.Path) -> TransformerConfig:
  """Reads the shape of a model from `config.json`.

  Raises:
    WeightsError: the file is missing or damaged, lacks a field, or describes
      a network that `agentrl.models` does not have.
  """
  path = pathlib.Path(directory) / _CONFIG
  return hf_config.parse(read_json(path), str(path))


def load(
    directory: str | pathlib.Path, *, dtype: Any = np.float32
) -> tuple[TransformerConfig, Params]:
  """Reads a model.

  Args:
    directory: has config.json and safetensors, in one file or in shards.
    dtype: of the parameters, for any type in the file.

  Returns:
    Its shape, and NumPy parameters in the trainer's layout.

  Raises:
    WeightsError: a file is missing or damaged, or a tensor is missing, unknown
      or of another shape than config.json says.
  """
  directory = pathlib.Path(directory)
  config = load_config(directory)
  with contextlib.ExitStack() as stack:
    stored = open_tensors(directory, config, stack)
    params = names.assemble(
        config,
        lambda tensor: tensor.hf,
        stored,
        lambda name: stored[name].read(),
        shape_of=lambda name: stored[name].slices().get_shape(),
        dtype=dtype,
        source=str(directory),
    )
  return config, params


def stored_dtype(directory: str | pathlib.Path) -> str:
  """NumPy's name of the type in which a model's embedding is stored.

  Raises:
    WeightsError: a file is missing or damaged, or its type is not of `DTYPES`.
  """
  directory = pathlib.Path(directory)
  config = load_config(directory)
  with contextlib.ExitStack() as stack:
    stored = open_tensors(directory, config, stack)
    if names.EMBED.hf not in stored:
      raise WeightsError(f'{directory} has no {names.EMBED.hf!r}.')
    kind = stored[names.EMBED.hf].slices().get_dtype()
  dtypes = {theirs: ours for ours, theirs in shards.DTYPES.items()}
  if kind not in dtypes:
    raise WeightsError(
        f'{directory} stores its weights as {kind}; known: {", ".join(dtypes)}.'
    )
  return dtypes[kind]


class Stored(NamedTuple):
  """A tensor of an open safetensors file."""

  file: Any
  name: str  # in the file

  def read(self) -> np.ndarray:
    return self.file.get_tensor(self.name)

  def slices(self) -> Any:
    """The tensor for reading its shape and parts: a `PySafeSlice`."""
    return self.file.get_slice(self.name)


def open_tensors(
    directory: pathlib.Path,
    config: TransformerConfig,
    stack: contextlib.ExitStack,
) -> dict[str, Any]:
  """The stored tensors by the name that they have in a model of text.

  Each is `Stored`, `mxfp4.Packed` or `stacked_experts.Expert`.

  Args:
    directory: has safetensors, in one file or in shards.
    config: shape of the model.
    stack: closes the files.

  Raises:
    WeightsError: a file is missing or damaged.
  """
  stored: dict[str, Any] = {}
  family = families.FAMILIES[config.family]
  left_out = (*_OTHER_PREFIXES, *names.unread(config))
  ends = (mxfp4.BLOCKS, mxfp4.SCALES)
  for path in _weight_files(directory):
    try:
      file = stack.enter_context(safetensors.safe_open(path, 'np'))
    except (safetensors.SafetensorError, OSError) as error:
      raise WeightsError(
          f'{path} is not a whole safetensors file: {bounds.one_line(error)}.'
      ) from error
    for theirs in file.keys():
      name = _text_name(theirs)
      if not name.endswith(_IGNORED) and not name.startswith(left_out):
        stored[name] = Stored(file, theirs)
        kind = stored[name].slices().get_dtype()
        bits = family.packed and kind == 'U8' and name.endswith(ends)
        if kind not in _READABLE and not bits:
          raise WeightsError(
              f'{theirs!r} of {path} is of type {kind}; known:'
              f' {", ".join(_READABLE)}.'
          )
  if family.stacked:
    for name in [*filter(stacked_experts.is_stacked, stored)]:
      each = stacked_experts.split(name, stored.pop(name), str(directory))
      stored |= dict(each)
  for name in [name for name in stored if name.endswith(mxfp4.BLOCKS)]:
    start = name.removesuffix(mxfp4.BLOCKS)
    scales = stored.pop(start + mxfp4.SCALES, None)
    if scales is not None:  # else the name is unknown, which is said
      stored[start] = mxfp4.Packed(stored.pop(name), scales)
  if config.tie_embeddings and names.LM_HEAD.hf in stored:
    _check_tied(stored, directory)
    del stored[names.LM_HEAD.hf]
  return stored


def _text_name(name: str) -> str:
  for theirs, ours in _TEXT_PREFIXES.items():
    if name.startswith(theirs):
      return ours + name.removeprefix(theirs)
  return name


def _check_tied(stored: Mapping[str, Stored], directory) -> None:
  """Raises WeightsError unless a head that is stored is the tied matrix."""
  head, embed = names.LM_HEAD.hf, names.EMBED.hf
  if not np.array_equal(stored[head].read(), stored[embed].read()):
    raise WeightsError(
        f'{directory} ties its embeddings, but {head!r} differs from'
        f' {embed!r}; set tie_word_embeddings to false in {_CONFIG}.'
    )


def _weight_files(directory: pathlib.Path) -> list[pathlib.Path]:
  if (directory / shards.SINGLE).is_file():
    return [directory / shards.SINGLE]
  index = directory / shards.INDEX
  if not index.is_file():
    raise WeightsError(
        f'{directory} has no weights: neither {shards.SINGLE} nor'
        f' {shards.INDEX}. Convert other formats with transformers:'
        ' save_pretrained(DIR).'
    )
  listed = read_json(index).get('weight_map')
  named = listed.values() if isinstance(listed, dict) else ()
  if not named or not all(
      isinstance(file, str) and pathlib.PurePath(file).name == file
      for file in named
  ):
    raise WeightsError(
        f'{index} has no weight_map from tensors to files of {directory}.'
    )
  files = sorted(set(named))
  for file in files:
    try:
      there = (directory / file).is_file()
    except OSError:  # not a valid file name
      there = False
    if not there:
      raise WeightsError(
          f'{directory} lacks {bounds.short(file)}, which {shards.INDEX} lists.'
      )
  return [directory / file for file in files]


def read_json(path: pathlib.Path) -> dict[str, Any]:
  """The object in a JSON file of a model; WeightsError if damaged or missing."""
  try:
    if path.stat().st_size > _MOST_JSON:
      raise WeightsError(f'{path} has more than {_MOST_JSON >> 20} MiB.')
    content = json.loads(path.read_text(encoding='utf-8'))
  except FileNotFoundError as error:
    raise WeightsError(f'{path.parent} has no {path.name}.') from error
  except OSError as error:
    raise WeightsError(f'Cannot read {path}: {error.strerror}.') from error
  except (ValueError, RecursionError) as error:
    reason = bounds.one_line(error)
    raise WeightsError(f'{path} is not JSON: {reason}.') from error
  if not isinstance(content, dict):
    raise WeightsError(
        f'{path} has {bounds.short(content)}, which is no JSON object.'
    )
  return content


def save(
    directory: str | pathlib.Path,
    config: TransformerConfig,
    params: Params,
    *,
    dtype: Any = None,
    shard_bytes: int = SHARD_BYTES,
    eos_ids: Sequence[int] = (),
    companions: Sequence[Callable[[pathlib.Path], None]] = (),
    checks: Sequence[Callable[[pathlib.Path], None]] = (),
) -> None:
  """Writes a model that transformers and SGLang load.

  Everything is written beside `directory` and renamed into place: a directory
  that exists is a whole model.

  Args:
    directory: must not exist, or be empty.
    config: shape of the model.
    params: the trainer's layout, on the host or on devices; not to be donated
      before this returns.
    dtype: in the files; None keeps the type of each array.
    shard_bytes: most bytes of one file.
    eos_ids: for config.json; servers stop on them.
    companions: each writes further files into the directory it is given (a
      tokenizer's `save`, say) before the rename.
    checks: each reads the whole directory before the rename; its error is
      raised here, and nothing is left behind.

  Raises:
    WeightsError: the directory has content, or the disk refuses.
  """
  with new_directory(pathlib.Path(directory)) as partial:
    for write in companions:
      write(partial)
    config_path = partial / _CONFIG
    entries = names.disassemble(config, params, dtype=dtype)
    fields = _config_fields(config, entries[0].dtype.name, eos_ids)
    text = json.dumps(fields, indent=2)
    config_path.write_text(text + '\n', encoding='utf-8')
    shards.write(partial, entries, shard_bytes=shard_bytes, threads=_THREADS)
    for check in checks:
      check(partial)


@contextlib.contextmanager
def new_directory(directory: pathlib.Path) -> Iterator[pathlib.Path]:
  """Gives a sibling to write into, renamed to `directory` or removed on error.

  Raises:
    WeightsError: the directory has content, or the disk refuses.
  """
  partial = directory.with_name(f'.{directory.name}.{uuid.uuid4().hex[:8]}')
  try:
    if directory.exists() and any(directory.iterdir()):
      raise WeightsError(
          f'{directory} is not empty; remove it or name another.'
      )
    partial.mkdir(parents=True)
    try:
      yield partial
      partial.replace(directory)
    except BaseException:
      shutil.rmtree(partial)
      raise
  except OSError as error:
    raise WeightsError(f'Cannot write {directory}: {error}.') from error


def _config_fields(
    config: TransformerConfig, dtype: str, eos_ids: Sequence[int]
) -> dict[str, Any]:
  return hf_config.make(config) | {
      'torch_dtype': dtype,
      'bos_token_id': None,
      'eos_token_id': list(eos_ids) or None,
      'pad_token_id': None,
  }
