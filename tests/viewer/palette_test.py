"""The colours of runs are told apart, also by people with a colour deficiency."""

import itertools
import pathlib
import re

import numpy as np
import pytest

from agentrl import viewer

CSS = pathlib.Path(viewer.__file__).parent / 'static' / 'pages' / 'runs.css'
# Of linear RGB (Machado, Oliveira and Fernandes, IEEE TVCG 15(6), 2009,
# severity 1).
VISION = {
    'normal': np.eye(3),
    'protan': [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
               [-0.003882, -0.048116, 1.051998]],
    'deutan': [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
               [-0.011820, 0.042940, 0.968881]],
    'tritan': [[1.255528, -0.076749, -0.178779],
               [-0.078411, 0.930809, 0.147602],
               [0.004733, 0.691367, 0.303900]],
}  # fmt: skip
PAPER = {'light': '#ffffff', 'dark': '#14171c'}
INK = {'light': '#1b1f26', 'dark': '#e4e7ec'}


def palettes():
  """The eight colours of each theme; dark ones stand there twice."""
  found = re.findall(r'--run-\d: (#\w{6});', CSS.read_text())
  light, dark, again = found[:8], found[8:16], found[16:]
  assert dark == again
  return {'light': light, 'dark': dark}


def linear(colour):
  parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
  return np.where(
      parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4
  )


def lab(rgb):
  """CIELAB of linear RGB, white at D65."""
  to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722],
            [0.0193, 0.1192, 0.9505]]  # fmt: skip
  x, y, z = np.cbrt(np.array(to_xyz) @ rgb / np.array([0.9505, 1, 1.089]))
  return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def contrast(a, b):
  """As WCAG has it."""
  dark, light = sorted(
      np.array([0.2126, 0.7152, 0.0722]) @ linear(c) for c in (a, b)
  )
  return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize('theme', PAPER)
def test_lines_stand_out_from_the_paper(theme):
  for colour in palettes()[theme]:
    assert contrast(colour, PAPER[theme]) > 3  # WCAG 1.4.11


@pytest.mark.parametrize('theme', PAPER)
@pytest.mark.parametrize('vision', VISION)
def test_lines_of_one_kind_are_told_apart(theme, vision):
  seen = [
      lab(np.clip(np.array(VISION[vision]) @ linear(colour), 1e-4, 1))
      for colour in palettes()[theme]
  ]
  for lines in (seen[:4], seen[4:]):  # solid ones, dashed ones
    for a, b in itertools.combinations(lines, 2):
      assert np.linalg.norm(a - b) > 18


@pytest.mark.parametrize('theme', PAPER)
@pytest.mark.parametrize('name', ['up', 'down'])
def test_tokens_are_read_on_their_strongest_colour(theme, name):
  css = (CSS.parents[1] / 'lib' / 'tokens.css').read_text()
  of_both = re.search(rf'--{name}: light-dark\((\S+), (\S+)\)', css).groups()
  strong, paper = (
      np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)])
      for colour in (of_both[theme == 'dark'], PAPER[theme])
  )
  mixed = np.round(0.85 * strong + 0.15 * paper).astype(int)
  assert contrast('#' + bytes(mixed.tolist()).hex(), INK[theme]) > 4.5
