"""Scripts that tests import share a process: no flag of theirs is defined twice."""

import pathlib
import re
import subprocess
import sys

TESTS = pathlib.Path(__file__).parent.parent
IMPORT = re.compile(r'^from (experiments[\w.]*) import (\w+(?:, \w+)*)', re.M)


def test_scripts_that_tests_import_share_a_process():
  found = {
      statement
      for path in TESTS.rglob('*.py')
      for statement in IMPORT.findall(path.read_text())
  }
  assert len(found) > 5
  # In a process of its own: in this one only some of them are imported.
  program = ''.join(f'from {place} import {names}\n' for place, names in found)
  subprocess.run([sys.executable, '-c', program], cwd=TESTS.parent, check=True)
