"""A picture of the grid, for people."""

import struct
import zlib
from typing import Any

TILE = 24  # pixels a cell


def png(grid: Any) -> bytes:
  """The whole grid with the agent's view lit, as a PNG file.

  Minigrid draws into an array, without a window.
  """
  pixels = grid.get_full_render(highlight=True, tile_size=TILE)
  height, width, _ = pixels.shape
  # Each line starts with the number of its filter: 0, none.
  lines = b''.join(b'\0' + line.tobytes() for line in pixels)
  return b''.join([
      b'\x89PNG\r\n\x1a\n',
      # 8 bits a channel, red, green and blue.
      _chunk(b'IHDR', struct.pack('>IIBBBBB', width, height, 8, 2, 0, 0, 0)),
      _chunk(b'IDAT', zlib.compress(lines, 6)),
      _chunk(b'IEND', b''),
  ])


def _chunk(kind: bytes, data: bytes) -> bytes:
  crc = zlib.crc32(kind + data)
  return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', crc)
