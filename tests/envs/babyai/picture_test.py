"""Tests for agentrl.envs.babyai.picture."""

import io

import matplotlib.image
import numpy as np

from agentrl.envs.babyai import levels, picture


def test_a_reader_of_png_sees_what_minigrid_draws():
  grid = levels.build(levels.NAMES.index('BossLevel'))
  read = matplotlib.image.imread(io.BytesIO(picture.png(grid)), format='png')
  drawn = grid.get_full_render(highlight=True, tile_size=picture.TILE)
  np.testing.assert_array_equal(np.round(255 * read).astype(np.uint8), drawn)
  assert drawn.shape == (grid.height * 24, grid.width * 24, 3)
