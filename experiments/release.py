r"""Makes a release artefact of a run: its policy, with a card, in one archive.

    python -m experiments.release --run=runs/quickstart --folder=runs/release
    python launch.py --config=configs/evaluate.py:model=runs/release/quickstart \
        --workdir=runs/released

Exports the newest checkpoint in bfloat16 (`configs/export.py`; of a policy with an
adapter the adapter alone), evaluates the exported folder on the panel of its run
(bfloat16 is another policy than float32), adds that figure to the card, and packs the
folder: the same bytes for the same run. The second command is all that a user of the
unpacked archive needs: the folder says which environment, format and template the
policy speaks.
"""

import gzip
import hashlib
import pathlib
import subprocess
import sys
import tarfile

from absl import app, flags

from agentrl.evaluation import results
from agentrl.runtime import workdir as workdir_lib

_RUN = flags.DEFINE_string('run', None, 'Workdir of the run.', required=True)
_OUT = flags.DEFINE_string(
    'folder', None, 'Folder of the release.', required=True
)
_NAME = flags.DEFINE_string('name', None, "Of the policy; None: the run's.")

_ROOT = pathlib.Path(__file__).parents[1]


def launch(config: str, workdir: pathlib.Path, *words: str) -> None:
  """Runs a mode; its error is this program's."""
  command = [
      *(sys.executable, 'launch.py', f'--config={config}'),
      *(f'--workdir={workdir.absolute()}', *words),
  ]
  code = subprocess.call(command, cwd=_ROOT)
  if code:
    sys.exit(code)


def describe(evaluation: pathlib.Path) -> str:
  """The section of the card about an evaluation of the folder itself."""
  lines = [
      f'- {row.env}: success {row.success.mean:.3f} [{row.success.low:.3f},'
      f' {row.success.high:.3f}] on {row.tasks} tasks'
      for row in results.read(evaluation).rows
      if row.subtask == results.ALL and row.success
  ]
  return (
      '\n## These files\n\nThe figures above, those with a star as well, are of'
      ' the float32 checkpoint. These bfloat16 weights, with 95% intervals over'
      ' tasks:\n\n'
      + '\n'.join(lines)
      + '\n\nTo repeat it, in a clone of agentrl, with this folder as'
      ' FOLDER:\n\n'
      '```bash\npython launch.py --config=configs/evaluate.py:model=FOLDER'
      ' --workdir=runs/released\n```\n'
  )


def pack(folder: pathlib.Path, archive: pathlib.Path) -> str:
  """Writes a `.tar.gz` of a folder; returns its SHA-256.

  Names, order and times are fixed: the same files give the same bytes.
  """

  def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.mtime = entry.uid = entry.gid = 0
    entry.uname = entry.gname = ''
    entry.mode = 0o644
    return entry

  with archive.open('wb') as raw:
    with gzip.GzipFile('', 'wb', fileobj=raw, mtime=0) as packed:
      with tarfile.open(fileobj=packed, mode='w') as tar:
        for path in sorted(filter(pathlib.Path.is_file, folder.rglob('*'))):
          name = f'{folder.name}/{path.relative_to(folder).as_posix()}'
          tar.add(path, name, filter=plain)
  return hashlib.sha256(archive.read_bytes()).hexdigest()


def main(argv):
  if len(argv) > 1:
    raise app.UsageError(f'Unexpected arguments {argv[1:]}.')
  run, out = pathlib.Path(_RUN.value).absolute(), pathlib.Path(_OUT.value)
  folder = out / (_NAME.value or run.name)
  if folder.exists():
    sys.exit(f'{folder} exists: another --folder, or another --name.')
  config = workdir_lib.read_record(run / workdir_lib.CONFIG)
  adapter = bool(config['model'].get('lora', {}).get('rank'))
  launch(
      f'configs/export.py:run={run}',
      folder,
      '--config.export.dtype=bfloat16',
      f'--config.export.adapter={adapter}',
  )
  evaluation = out / f'{folder.name}-evaluation'
  launch(f'configs/evaluate.py:model={folder.absolute()}', evaluation)
  card = folder / 'README.md'
  text = card.read_text().replace(f'# {run.name}\n', f'# {folder.name}\n', 1)
  card.write_text(text + describe(evaluation))
  archive = out / f'{folder.name}.tar.gz'
  digest = pack(folder, archive)
  size = archive.stat().st_size / 1e6
  print(f'{archive}: {size:.2f} MB, sha256 {digest}')


if __name__ == '__main__':
  app.run(main)
