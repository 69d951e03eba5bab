"""The release artefact: packed the same way twice, with the figure of itself."""

import io
import tarfile

from agentrl.evaluation import results
from experiments import release


def test_the_same_files_give_the_same_archive(tmp_path):
  folder = tmp_path / 'policy'
  (folder / 'inner').mkdir(parents=True)
  (folder / 'b.txt').write_text('two')
  (folder / 'inner' / 'a.txt').write_text('one')
  first = release.pack(folder, tmp_path / 'x.tar.gz')
  (folder / 'b.txt').write_text('two')  # another time of change
  assert release.pack(folder, tmp_path / 'y.tar.gz') == first
  with tarfile.open(
      fileobj=io.BytesIO((tmp_path / 'x.tar.gz').read_bytes())
  ) as tar:
    assert tar.getnames() == ['policy/b.txt', 'policy/inner/a.txt']


def test_the_card_says_what_the_packed_weights_reach(tmp_path):
  figure = results.Figure(0.75, 0.3, 0.95, 'wilson')
  row = results.Row(
      **dict.fromkeys(('success_errors_fail', 'ret')),
      env='babyai',
      subtask=results.ALL,
      policy='quickstart',
      n=4,
      tasks=4,
      errors=0,
      success=figure,
  )
  found = results.Results(config={}, policies=(), panels=(), rows=(row,))
  results.write(tmp_path, found)
  said = release.describe(tmp_path)
  assert '- babyai: success 0.750 [0.300, 0.950] on 4 tasks' in said
  assert 'configs/evaluate.py:model=FOLDER' in said
