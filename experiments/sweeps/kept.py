r"""Keeps finished runs of recipes beside a page, and draws what they reached.

    python -m experiments.sweeps.kept --page=experiments/2026-12-pretrained \
        --add=babyai=runs/babyai-0 --add=babyai=runs/babyai-1
    python -m experiments.sweeps.kept --page=experiments/2026-12-pretrained
    python -m experiments.sweeps.kept --page=experiments/2026-12-asynchrony \
        --unpack=runs/asynchrony

See `pages` for what is kept of a run. `PAGE/table.md` and `PAGE/figure.svg` are those
of a sweep, an arm a recipe. With `--unpack` nothing is drawn: the runs become workdirs
without texts, for the viewer and `configs/study.py`.
"""

import pathlib
import sys

from absl import app, flags

from agentrl.errors import AgentrlError, ConfigError
from agentrl.runtime import workdir as workdir_lib
from experiments.sweeps import pages, unpacked
from experiments.sweeps.cells import SEED, Cell

_PAGE = flags.DEFINE_string('page', None, 'Folder of the page.', required=True)
_ADD = flags.DEFINE_multi_string(
    'add', [], 'ARM=WORKDIR of a finished run of a recipe.'
)

_UNPACK = flags.DEFINE_string(
    'unpack', None, 'Folder that gets a workdir for each run of the page.'
)


def add(page: pathlib.Path, arm: str, workdir: pathlib.Path) -> pathlib.Path:
  """Keeps the run of a recipe; returns its file.

  Raises:
    ConfigError: the run is not finished.
    CheckpointError: it is none.
  """
  config = workdir_lib.read_record(workdir / workdir_lib.CONFIG)
  cell = Cell('', ((':recipe', arm), (SEED, str(config['seed']))))
  return pages.write(page, cell, workdir)


def main(argv):
  if len(argv) > 1:
    raise app.UsageError(f'Unexpected arguments {argv[1:]}.')
  page = pathlib.Path(_PAGE.value)
  try:
    for text in _ADD.value:
      arm, equals, workdir = text.partition('=')
      if not equals:
        raise ConfigError(f'--add is ARM=WORKDIR, got {text!r}.')
      print(add(page, arm, pathlib.Path(workdir)))
    if _UNPACK.value is not None:
      for folder in unpacked.write(page, pathlib.Path(_UNPACK.value)):
        print(folder)
      return
  except AgentrlError as error:
    sys.exit(f'{type(error).__name__}: {error}')
  # Imported late: matplotlib takes a second, and a refusal should not.
  from experiments.sweeps import figure, tables

  runs = pages.read(page)
  text = tables.of_runs(runs, compared=False)
  (page / 'table.md').write_text(text)
  print(text)
  if runs:
    figure.draw(runs, page / 'figure.svg')


if __name__ == '__main__':
  app.run(main)
