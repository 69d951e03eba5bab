"""axe-core, which judges how accessible a page is; from npm, kept in the cache."""

import pathlib
import shutil
import subprocess
import tarfile

import pytest

from agentrl.runtime import cache

_VERSION = '4.11.0'
_FILE = 'package/axe.min.js'


def script() -> str:
  """Its source; without npm, the test is skipped."""
  if shutil.which('npm') is None:
    pytest.skip('axe-core is fetched by npm, which is not installed')

  def write(folder: pathlib.Path) -> None:
    subprocess.run(
        ['npm', 'pack', '--silent', f'axe-core@{_VERSION}'],
        cwd=folder,
        check=True,
        timeout=120,
        stdout=subprocess.DEVNULL,
    )
    (archive,) = folder.glob('*.tgz')
    with tarfile.open(archive) as file:
      source = file.extractfile(_FILE).read()
    (folder / 'axe.min.js').write_bytes(source)
    archive.unlink()

  folder = cache.folder('axe-core', _VERSION, write)
  return (folder / 'axe.min.js').read_text()


def findings(page) -> list[str]:
  """Serious and critical findings on a page, one line each."""
  # By the debugger: the page's own policy allows no script from elsewhere.
  page.evaluate(script())
  found = page.evaluate('axe.run({resultTypes: ["violations"]})')
  return [
      f'{x["impact"]}: {x["id"]}: {x["help"]}: {x["nodes"][0]["html"][:200]}'
      for x in found['violations']
      if x['impact'] in ('serious', 'critical')
  ]
