"""mode='study': all runs of a folder as one page, and as tables."""

import pathlib

import rich.console
from ml_collections import ConfigDict

from agentrl.evaluation.curves import figure
from agentrl.evaluation.studies import page, study, tables
from agentrl.modes import reading
from agentrl.runtime import workdir as workdir_lib

PAGE = 'study.html'


def run(config: ConfigDict, workdir: str | None) -> None:
  """Writes `study.html` and a CSV for each table to `workdir`.

  Raises:
    AgentrlError: something that the user can mend.
  """
  config = reading.read(config)
  chosen = config.study
  figure.check_drawing(page.WHAT)
  if chosen.parquet:
    tables.check_parquet()
  directory = workdir_lib.make(workdir)
  folder = pathlib.Path(chosen.folder)
  found = study.read(folder, group=chosen.group, seed=chosen.seed)
  text = page.html(
      found,
      title=f'Study of {folder.resolve().name}',
      command=page.command(chosen.folder, chosen.group, str(workdir)),
  )
  path = directory / PAGE
  path.write_text(text, 'utf-8', 'backslashreplace')
  written = tables.write(found, directory, parquet=chosen.parquet)
  console = rich.console.Console()
  for row in found.left_out:
    both = ' and '.join(filter(None, (row['a'], row['b'])))
    console.print(
        f'Left out: {both}: {row["why"]}',
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
  console.print(
      f'See {path} and {", ".join(x.name for x in written)}',
      highlight=False,
      markup=False,
      soft_wrap=True,
  )
