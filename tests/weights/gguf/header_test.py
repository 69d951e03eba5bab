"""Tests for agentrl.weights.gguf.header."""

import struct
import time

import pytest

from agentrl.errors import WeightsError
from agentrl.weights.gguf import files

UINT8, UINT32, STRING, ARRAY = 0, 4, 8, 9


def number(value, kind='Q', order='<'):
  return struct.pack(order + kind, value)


def text(value, order='<'):
  return number(len(value), order=order) + value


def header(*, tensors=0, fields=0, version=3, order='<', rest=b''):
  start = b'GGUF' + number(version, 'I', order)
  return start + number(tensors, 'Q', order) + number(fields, 'Q', order) + rest


def array(kind, count, rest=b''):
  return header(
      fields=1,
      rest=text(b'a')
      + number(ARRAY, 'I')
      + number(kind, 'I')
      + number(count)
      + rest,
  )


def tensor(*dims, count=None):
  count = len(dims) if count is None else count
  return header(
      tensors=1,
      rest=text(b'a')
      + number(count, 'I')
      + b''.join(map(number, dims))
      + number(0, 'I')
      + number(0),
  )


@pytest.mark.parametrize(
    'data, message',
    [
        (b'', 'cannot mmap an empty file'),
        (b'GGML' + bytes(60), 'does not begin with GGUF'),
        (header(fields=2**60), '1152921504606846976 fields, at most 65536'),
        (header(tensors=2**62), 'tensors, at most 131072 are read'),
        (header(fields=1), 'its header goes on for 8 bytes at byte 24'),
        (
            header(fields=1, rest=number(2**40)),
            'goes on for 1099511627776 bytes',
        ),
        # The reader would make an object of each, in memory.
        (array(UINT8, 2**40), '1099511627776 entries of arrays'),
        (array(UINT32, 2**21, bytes(2**20)), 'goes on for 8388608 bytes'),
        (array(STRING, 2**21, bytes(2**20)), 'goes on for 8 bytes'),
        (array(ARRAY, 1), 'a value of unknown type 9'),
        (array(77, 1), 'a value of unknown type 77'),
        (tensor(2**40, 2**40), 'numbers in a tensor'),
        (tensor(count=2**31), 'dimensions of a tensor, at most 4'),
        (header(version=9), 'version 9'),
    ],
)
def test_a_header_that_lies_is_refused_at_once(tmp_path, data, message):
  path = tmp_path / 'a.gguf'
  path.write_bytes(data)
  began = time.monotonic()
  with pytest.raises(WeightsError, match=f'{path} is not a whole .*{message}'):
    files.open_file(path)
  assert time.monotonic() - began < 2


@pytest.mark.parametrize('order', '<>')
def test_an_honest_header_is_read_in_either_byte_order(tmp_path, order):
  path = tmp_path / 'a.gguf'
  entries = [number(3, order=order), b'abc']
  path.write_bytes(
      header(
          fields=2,
          order=order,
          rest=text(b'name', order)
          + number(STRING, 'I', order)
          + b''.join(entries)
          + text(b'list', order)
          + number(ARRAY, 'I', order)
          + number(UINT8, 'I', order)
          + number(2, order=order)
          + b'\x05\x06',
      )
      + bytes(64)
  )
  fields = files.open_file(path).fields
  assert fields['name'].contents() == 'abc'
  assert fields['list'].contents() == [5, 6]
