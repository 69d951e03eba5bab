"""A fingerprint of parameters: equal for equal models, on any mesh."""

import hashlib
import json
from typing import Any

import jax
import numpy as np


def of_params(params: Any) -> str:
  """SHA-256 over names, types, shapes and bytes of a parameter tree.

  One tensor at a time comes to the host; a gigabyte takes about a second.
  """
  digest = hashlib.sha256()
  leaves = jax.tree_util.tree_flatten_with_path(params)[0]
  named = {
      jax.tree_util.keystr(path, simple=True, separator='/'): leaf
      for path, leaf in leaves
  }
  for name in sorted(named):
    # Of a copy: an array keeps what was once brought to the host.
    array = np.asarray(named[name].copy())
    header = json.dumps([name, str(array.dtype), array.shape])
    digest.update(header.encode() + b'\n')
    # As bytes: not every type of ours has a buffer, bfloat16 has none.
    digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
  return digest.hexdigest()
