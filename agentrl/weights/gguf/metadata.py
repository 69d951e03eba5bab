"""The metadata of a GGUF file: read, and checked field by field."""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

import gguf
import numpy as np

from agentrl.errors import WeightsError
from agentrl.weights import bounds


@dataclasses.dataclass(frozen=True)
class Metadata:
  """The fields of one file, and its tensors.

  Attributes:
    path: of the file, for messages.
    architecture: its `general.architecture`, of any type.
    fields: those of the architecture, without its name in front.
    tensors: by name.
  """

  path: str | pathlib.Path
  architecture: Any
  fields: Mapping[str, Any]
  tensors: Mapping[str, gguf.ReaderTensor]

  def place(self, field: str) -> str:
    """The field's name, for messages."""
    return f'{self.architecture}.{field} of {self.path}'

  def short(self, field: str) -> str:
    """The field's value in one short line."""
    return bounds.short(self.fields.get(field))

  def check_has(self, fields: list[str]) -> None:
    """Raises WeightsError that names those of the fields that are missing."""
    missing = [
        f'{self.architecture}.{x}' for x in fields if x not in self.fields
    ]
    if missing:
      raise WeightsError(f'{self.path} has no field {", ".join(missing)}.')

  def checked(self, field: str, ours: str, default: Any = None) -> Any:
    """A field that holds what `ours` of TransformerConfig may hold.

    Raises:
      WeightsError: it holds something else.
    """
    value = self.fields.get(field, default)
    bounds.check(ours, value, self.place(field))
    return shortest(value)


def read(reader: gguf.GGUFReader, path: str | pathlib.Path) -> Metadata:
  """The metadata of an open file but for the tokenizer's, which is long.

  Raises:
    WeightsError: a field holds text that is not UTF-8, or the file is a part of
      a model.
  """
  try:
    fields = {
        name: field.contents()
        for name, field in reader.fields.items()
        if not name.startswith('tokenizer.')
    }
  except ValueError as error:
    reason = bounds.one_line(error)
    raise WeightsError(f'{path} has a damaged field: {reason}.') from error
  parts = fields.get('split.count', 0)
  if parts not in (0, 1):
    raise WeightsError(
        f'{path} is one of {bounds.short(parts)} parts of a model; join them'
        ' with llama-gguf-split --merge.'
    )
  architecture = fields.get('general.architecture')
  prefix = f'{architecture}.'
  own = {
      field.removeprefix(prefix): value
      for field, value in fields.items()
      if field.startswith(prefix)
  }
  tensors = {tensor.name: tensor for tensor in reader.tensors}
  return Metadata(path, architecture, own, tensors)


def shortest(value: Any) -> Any:
  """The shortest decimal of a float32: 1e-05, not 9.999999747378752e-06."""
  return float(str(np.float32(value))) if isinstance(value, float) else value
