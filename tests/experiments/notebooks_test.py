"""Notebooks are what jupytext makes of their scripts, and install by themselves."""

import json
import pathlib

import pytest

jupytext = pytest.importorskip('jupytext')
FOLDER = pathlib.Path(__file__).parents[2] / 'experiments' / 'notebooks'
SCRIPTS = sorted(FOLDER.glob('*.py'))


def test_there_are_five_pairs():
  names = [path.stem for path in SCRIPTS]
  assert [name[:2] for name in names] == ['01', '02', '03', '04', '05']
  assert [path.stem for path in sorted(FOLDER.glob('*.ipynb'))] == names


@pytest.mark.parametrize('script', SCRIPTS, ids=lambda path: path.stem)
def test_a_notebook_is_what_jupytext_makes_of_its_script(script):
  cells = lambda notebook: [
      (cell['cell_type'], ''.join(cell['source']).strip())
      for cell in notebook['cells']
  ]
  notebook = json.loads(script.with_suffix('.ipynb').read_text())
  assert cells(notebook) == cells(
      jupytext.read(script)
  ), f'jupytext --to ipynb {script}'
  # Outputs would be of the machine that made them.
  code = [cell for cell in notebook['cells'] if cell['cell_type'] == 'code']
  assert not any(cell['outputs'] or cell['execution_count'] for cell in code)


@pytest.mark.parametrize('script', SCRIPTS, ids=lambda path: path.stem)
def test_the_first_cell_installs_what_is_missing(script):
  first = next(
      cell
      for cell in jupytext.read(script)['cells']
      if cell.cell_type == 'code'
  )
  assert 'third_party/requirements/notebooks.txt' in first.source
  assert "'pip',\n" in first.source or "'pip', 'install'" in first.source
