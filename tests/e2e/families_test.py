"""Two steps of GRPO with a random small model of each family, from its own files."""

import pytest

from tests import qwen3
from tests.e2e.running import launch, lines, small
from tests.models import hugging_face

pytestmark = [pytest.mark.slow, pytest.mark.extra]


@pytest.mark.parametrize('family', hugging_face.DEFAULT)
def test_it_is_trained_and_samples_as_it_is_trained(family, tmp_path):
  folder, run = tmp_path / 'model', tmp_path / 'run'
  tokenizer = qwen3.tokenizer()
  fields = dict(vocab_size=tokenizer.vocab_size, max_position_embeddings=2048)
  if family == 'phi3':  # where its other set of frequencies begins
    fields['original_max_position_embeddings'] = 2048
  model = hugging_face.make(hugging_face.DEFAULT[family], **fields)
  model.save_pretrained(folder)
  tokenizer.save(folder)
  done = launch(
      run,
      '--config.agent.format=plain',
      '--config.eval.num_tasks=0',
      '--config.warmstart.episodes=0',
      '--config.sampler.deterministic=True',
      '--config.agent.instructions=compact',
      '--config.env.options.style=compact',
      '--config.rollout.max_context=1024',
      '--config.optim.lr=1e-2',
      '--config.algo.name=reinforce_pp',
      config=small('babyai_grpo', f'model={folder}'),
  )
  assert done.returncode == 0, done.stdout + done.stderr
  first, second = lines(run / 'metrics.jsonl')
  assert first['train/grad_norm'] > 0
  # Of the weights that were read, and of those that were handed over.
  for line in (first, second):
    assert line['sampler/logprob_abs_diff_mean'] < 1e-5
