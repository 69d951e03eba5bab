"""Scripts that tests import share a process: no flag of theirs is defined twice."""

import pathlib
import re
import subprocess
import sys

TESTS = pathlib.Path(__file__).parent.parent
IMPORT = re.compile(r'^from (experiments[\w.]*) import (\w+(?:, \w+)*)', re.M)
NAMED = re.compile(r"import_module\(\s*'(experiments[^']+)'", re.M)  # no word


def test_scripts_that_tests_import_share_a_process():
  texts = [path.read_text() for path in TESTS.rglob('*.py')]
  found = {x for text in texts for x in IMPORT.findall(text)}
  named = {x for text in texts for x in NAMED.findall(text)}
  assert len(found) > 5 and len(named) > 2
  # In a process of its own: in this one only some of them are imported.
  lines = [f'from {place} import {names}' for place, names in found]
  lines += ['import importlib']
  lines += [f'importlib.import_module({name!r})' for name in named]
  program = '\n'.join(lines)
  subprocess.run([sys.executable, '-c', program], cwd=TESTS.parent, check=True)
