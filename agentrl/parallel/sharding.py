"""Shardings from an ordered list of (regex, PartitionSpec) rules."""

import re
from collections.abc import Sequence
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from agentrl.parallel.mesh import BATCH_AXES

Rules = Sequence[tuple[str, P]]

# The trainer's layout: kernels [L, in, out]. The first projection of a pair
# splits its output over `tensor`, the second its input, so that the pair needs
# one reduction; `fsdp` splits the other dimension. Optimizer moments have the
# paths of their parameters inside, so the same rules place them.
DECODER_RULES: Rules = (
    (r'/(q|k|v|gate|up)/kernel$', P(None, 'fsdp', 'tensor')),
    (r'/(o|down)/kernel$', P(None, 'tensor', 'fsdp')),
    (r'(^|/)embed$', P('tensor', 'fsdp')),
    (r'(^|/)lm_head$', P('fsdp', 'tensor')),
    (r'.*', P()),
)

ROWS = P(BATCH_AXES)


def infer_shardings(tree: Any, mesh: Mesh, rules: Rules) -> Any:
  """Gives each leaf the spec of the first rule whose regex matches its path."""

  def spec_for(path, leaf):
    name = jax.tree_util.keystr(path, simple=True, separator='/')
    for pattern, spec in rules:
      if re.search(pattern, name):
        return NamedSharding(mesh, spec)
    raise ValueError(
        f'No sharding rule matches {name!r} with shape {leaf.shape}; '
        "end the rules with ('.*', PartitionSpec()) to replicate the rest."
    )

  return jax.tree_util.tree_map_with_path(spec_for, tree)
