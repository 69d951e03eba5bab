"""Weights for one engine from files, and its own by the names in files."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from agentrl.errors import WeightsError
from agentrl.models import lora as lora_lib, transformer
from agentrl.models.config import TransformerConfig
from agentrl.weights import hf, names, peft


class WeightFiles:
  """Reads models and adapters of one shape; its methods block."""

  def __init__(self, config: TransformerConfig, current: Callable[[], Any]):
    """Reads nothing yet.

    Args:
      config: shape of the decoder.
      current: gives the parameters in use, without an adapter.
    """
    self._config, self._current = config, current
    self._dtype = jax.tree.leaves(current())[0].dtype

  def load_model(self, path: str) -> Any:
    """Parameters of a model, in the engine's layout.

    Raises:
      WeightsError: they cannot be read, or have another shape.
    """
    config, params = hf.load(path, dtype=self._dtype)
    if config != self._config:
      raise WeightsError(
          f'{path} has the shape {config}; the engine serves {self._config}.'
      )
    return transformer.unstack_layers(params)

  def load_adapter(self, path: str) -> Any:
    """The parameters in use with an adapter of peft's format merged into them.

    Raises:
      WeightsError: it cannot be read, or is not for this model.
    """
    lora, adapter = peft.load_adapter(path, self._config)
    return lora_lib.merge(
        transformer.unstack_layers(adapter),
        lora_lib.Base(self._current(), lora.scale),
        out_first=True,
    )

  def read_rows(self, name: str, rows: int) -> Any:
    """The first `rows` rows of a tensor by its Hugging Face name, as lists.

    Raises:
      ValueError: no tensor has this name.
    """
    table: dict[str, list[tuple[names.Tensor, tuple[int, ...]]]] = {}
    for tensor, index, file_name in names.file_names(
        self._config, lambda tensor: tensor.hf
    ):
      table.setdefault(file_name, []).append((tensor, index))
    if name == 'lm_head.weight' and self._config.tie_embeddings:
      name = 'model.embed_tokens.weight'  # as SGLang, which has it by both
    if name not in table:
      raise ValueError(
          f'No weight is called {name!r}; one that is: {next(iter(table))!r}.'
      )
    parts = [self._read(*place) for place in table[name]]
    tensors = [tensor for tensor, _ in table[name]]
    value = np.concatenate(parts)
    order = names.file_order(tensors, value.shape[0])
    if order is not None:
      value = value[np.argsort(order)]
    return value[:rows].tolist()  # rows may be negative

  def _read(self, tensor: names.Tensor, index: tuple[int, ...]) -> np.ndarray:
    """A parameter in use, in the file's orientation, as float32."""
    value = self._current()
    path = tensor.path
    if tensor.run is not None:
      path = (f'layers_{tensor.layers[index[0]]}', *tensor.path_in_layer)
    for key in path:
      value = value[key]
    # The engine's matrices lie as the file's, but for those of experts.
    if tensor.per_expert:
      value = value[index[1]].T
    return np.asarray(value, np.float32)
