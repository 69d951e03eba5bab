"""Each start of a run is written down once."""

import json
import subprocess
import sys

import pytest

from agentrl import shipped
from agentrl.runtime import starts

NOTE = (
    'import pathlib, sys; from agentrl.runtime import starts;'
    ' [starts.note(pathlib.Path(sys.argv[1])) for _ in range(3)]'
)


def start(workdir, *more):
  subprocess.run(
      [sys.executable, '-c', NOTE, str(workdir), *more],
      check=True,
      cwd=shipped.ROOT,
  )


def test_a_process_is_one_line_however_often_it_is_noted(tmp_path):
  start(tmp_path, '--config=a b.py', "--config.env.options={'x': 'ä'}")
  start(tmp_path)
  first, second = starts.read(tmp_path)
  assert first['command'].endswith(
      f"{tmp_path} '--config=a b.py'"
      """ '--config.env.options={'"'"'x'"'"': '"'"'ä'"'"'}' """.rstrip()
  )
  assert first['packages']['jax'] and 'no-such' not in first['packages']
  assert second['command'].endswith(str(tmp_path))
  assert first['time'] <= second['time']


def test_the_commit_is_of_the_clone(tmp_path):
  start(tmp_path)
  ((found,),) = ([x['commit']] for x in starts.read(tmp_path))
  if not (shipped.ROOT / '.git').exists():
    assert found is None
    return
  head = subprocess.run(
      ['git', 'rev-parse', 'HEAD'],
      cwd=shipped.ROOT,
      capture_output=True,
      text=True,
      check=True,
  ).stdout
  assert head.startswith(found.removesuffix('-dirty'))


@pytest.mark.parametrize(
    'content', [b'', b'{"time": "now"', b'[1]\n', b'\xff\n', b'[' * 10**5]
)
def test_what_is_torn_is_left_out(content, tmp_path):
  whole = {'time': 'then', 'command': 'python launch.py'}
  text = json.dumps(whole).encode() + b'\n' + content
  (tmp_path / starts.FILE).write_bytes(text)
  assert starts.read(tmp_path) == [whole]
  assert starts.read(tmp_path / 'none') == []
