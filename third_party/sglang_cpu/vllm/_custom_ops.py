"""Rotary embedding in torch: all that SGLang 0.5.23 imports from here for our models."""

import torch


def rotary_embedding(
    positions: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor | None,
    head_size: int,
    cos_sin_cache: torch.Tensor,
    is_neox: bool,
) -> None:
  """Rotates `query` and `key` in place.

  Args:
    positions: `[N]` integers.
    query: `[N, heads * head_size]`.
    key: `[N, kv_heads * head_size]`, or None.
    head_size: width of a head.
    cos_sin_cache: `[max_position, rotary]`: cosines, then sines.
    is_neox: whether the two halves of a head are rotated against each other,
      rather than neighbours.
  """
  count = positions.numel()
  table = cos_sin_cache[positions.flatten()][:, None]
  cos, sin = table.chunk(2, dim=-1)
  for states in (query, key):
    if states is None:
      continue
    part = states.view(count, -1, head_size)[..., : table.shape[-1]]
    c, s = cos.to(part.dtype), sin.to(part.dtype)
    if is_neox:
      a, b = part.chunk(2, dim=-1)
      rotated = torch.cat((a * c - b * s, b * c + a * s), dim=-1)
    else:
      a, b = part[..., ::2], part[..., 1::2]
      rotated = torch.stack((a * c - b * s, b * c + a * s), -1).flatten(-2)
    part[...] = rotated
