"""Checks the header of a GGUF file before a reader trusts its numbers.

`gguf.GGUFReader` makes an object of each entry of an array, for any number that
the file gives, and reads beyond its end. The layout is that of
https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, versions 2 and 3.
"""

import math
import mmap
import pathlib
import struct

_MAGIC = b'GGUF'
_STRING, _ARRAY = 8, 9
# Type of a value -> its bytes.
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

# A few times those of the largest vocabularies and models.
_MOST_ITEMS = 2**22  # of all arrays together
_MOST_FIELDS = 2**16
_MOST_TENSORS = 2**17
_MOST_DIMS = 4
# No type takes less than a bit for a number.
_MOST_PER_BYTE = 8


def check(path: str | pathlib.Path) -> None:
  """Refuses a file with a header that does not fit into it.

  Raises:
    OSError: it cannot be opened.
    ValueError: it is not a GGUF file, or its header exceeds it.
  """
  with (
      open(path, 'rb') as file,
      mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
  ):
    _Header(data).walk()


class _Header:
  """A cursor over the header of a file."""

  def __init__(self, data: mmap.mmap):
    self._data = data
    self._at = 0
    self._order = '<'
    self._items = 0

  def walk(self) -> None:
    if self._take(4) != _MAGIC:
      raise ValueError('it does not begin with GGUF')
    version = self._take(4)
    if version[:2] == b'\0\0':  # big-endian
      self._order = '>'
    tensors, fields = self._number('Q'), self._number('Q')
    self._limit('fields', fields, _MOST_FIELDS)
    self._limit('tensors', tensors, _MOST_TENSORS)
    for _ in range(fields):
      self._string()
      self._value(self._number('I'))
    for _ in range(tensors):
      self._tensor()

  def _value(self, kind: int) -> None:
    if kind == _STRING:
      self._string()
    elif kind == _ARRAY:
      inner, count = self._number('I'), self._number('Q')
      self._items += count
      self._limit('entries of arrays', self._items, _MOST_ITEMS)
      if inner == _STRING:
        for _ in range(count):
          self._string()
      else:
        self._skip(count * self._size(inner))
    else:
      self._skip(self._size(kind))

  def _tensor(self) -> None:
    self._string()
    count = self._number('I')
    self._limit('dimensions of a tensor', count, _MOST_DIMS)
    dims = [self._number('Q') for _ in range(count)]
    self._limit(
        'numbers in a tensor',
        math.prod(dims),
        _MOST_PER_BYTE * len(self._data),
    )
    self._skip(4 + 8)  # type and place

  def _string(self) -> None:
    self._skip(self._number('Q'))

  def _size(self, kind: int) -> int:
    if kind not in _SIZES:
      raise ValueError(f'a value of unknown type {kind}')
    return _SIZES[kind]

  def _number(self, kind: str) -> int:
    size = struct.calcsize(f'<{kind}')
    [number] = struct.unpack(self._order + kind, self._take(size))
    return number

  def _skip(self, count: int) -> None:
    if count > len(self._data) - self._at:
      raise ValueError(
          f'its header goes on for {count} bytes at byte {self._at}; it ends at'
          f' {len(self._data)}'
      )
    self._at += count

  def _take(self, count: int) -> bytes:
    self._skip(count)
    return self._data[self._at - count : self._at]

  def _limit(self, noun: str, count: int, most: int) -> None:
    if count > most:
      raise ValueError(f'{count} {noun}, at most {most} are read')
