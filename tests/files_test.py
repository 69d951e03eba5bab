"""Files that are written whole, or not at all."""

import threading

import pytest

from agentrl import files
from tests import small_disk


@pytest.mark.parametrize('data', ['a bit of\ntext é\r\n', b'\x00\xff'])
def test_a_file_is_what_was_written(tmp_path, data):
  path = tmp_path / 'a'
  path.write_text('an older and longer one, which is replaced')
  files.write_whole(path, data)
  expected = data if isinstance(data, bytes) else data.encode()
  assert path.read_bytes() == expected
  assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_written_leaves_what_was_there(tmp_path):
  disk = tmp_path / 'disk'
  with small_disk.mounted(disk, 1):
    path = disk / 'a'
    files.write_whole(path, 'old')
    with pytest.raises(OSError, match='No space left'):
      files.write_whole(path, b'x' * 10**8)
    assert path.read_text() == 'old'
    assert list(disk.iterdir()) == [path]


def test_a_folder_that_is_gone_is_an_error(tmp_path):
  with pytest.raises(FileNotFoundError):
    files.write_whole(tmp_path / 'gone' / 'a', 'x')


def test_readers_see_whole_files_of_several_writers(tmp_path):
  path = tmp_path / 'a'
  texts = {name * 100_000 for name in 'abc'}
  ended = threading.Event()

  def write(text):
    while not ended.is_set():
      files.write_whole(path, text, own=text[0])

  writers = [threading.Thread(target=write, args=(text,)) for text in texts]
  for writer in writers:
    writer.start()
  try:
    while not path.exists():
      pass
    seen = {path.read_text() for _ in range(200)}
  finally:
    ended.set()
    for writer in writers:
      writer.join()
  assert seen <= texts
  assert list(tmp_path.iterdir()) == [path]
