"""Outside clients, unmodified: against the embedded engine and a real server.

    python -m pytest -q -n 0 -m 'sglang and slow' tests/sglang/clients_test.py

Both serve SmolLM2-135M under one name, so that both give the same answers.
"""

import contextlib
import json
import signal
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import openai
import pytest

from agentrl.models.transformer import Transformer
from agentrl.training import language_model
from agentrl.weights import hf
from tests.sglang import client_environments as clients, server as server_lib

pytestmark = [pytest.mark.slow, pytest.mark.sglang]

NAME = 'smollm2-135m'
LENGTH = 64  # tokens that the reference scores at once
PARIS = 'The capital of France is Paris.'
DOCUMENTS = [
    {
        'question': 'The capital of France is',
        'choices': ['Paris', 'London', 'Berlin'],
        'answer': 0,
    },
    {
        'question': 'The opposite of hot is',
        'choices': ['seven', 'cold', 'wet'],
        'answer': 1,
    },
    {
        'question': 'A cat says',
        'choices': ['meow to the dog', 'moo', 'na\u00efve \u2603 17'],
        'answer': 1,
    },
]


class Reference:
  """The model without a server."""

  def __init__(self):
    self.model, _ = language_model.load_policy(NAME)
    module = Transformer(self.model.config, scan_layers=True)

    @jax.jit
    def logprobs(params, tokens):
      positions = jnp.arange(LENGTH)[None]
      hidden = module.apply({'params': params}, tokens, positions).hidden
      logits = module.apply({'params': params}, hidden, method='unembed')
      return jax.nn.log_softmax(logits[0])

    self._logprobs = logprobs

  def score(self, ids):
    """Log-probabilities of all ids but the first, and which are the largest."""
    padded = np.zeros((1, LENGTH), np.int32)
    padded[0, : len(ids)] = ids
    rows = np.asarray(self._logprobs(self.model.params, padded))[: len(ids) - 1]
    picked = rows[np.arange(len(rows)), ids[1:]]
    return picked, picked >= rows.max(axis=-1)


@pytest.fixture(scope='module')
def reference():
  return Reference()


@pytest.fixture(scope='module')
def model_dir(reference, tmp_path_factory):
  """The model with its tokenizer, as servers and harnesses load it."""
  directory = tmp_path_factory.mktemp('exported') / NAME
  model = reference.model
  hf.save(
      directory,
      model.config,
      model.params,
      eos_ids=model.tokenizer.eos_ids,
      companions=[model.tokenizer.save],
  )
  return directory


@contextlib.contextmanager
def engine(model_dir, log):
  config = f'configs/serve_policy.py:model={model_dir},port=0'
  with log.open('w') as errors, subprocess.Popen(
      [
          *(sys.executable, 'launch.py', f'--config={config}'),
          *(f'--config.serve.name={NAME}', '--config.serve.max_context=1024'),
      ],
      cwd=clients.ROOT,
      stdout=subprocess.PIPE,
      stderr=errors,
      text=True,
  ) as child:
    try:
      said = child.stdout.readline()
      assert said.startswith('Serving'), log.read_text()
      yield said.split()[-1]
    finally:
      child.send_signal(signal.SIGTERM)
      child.wait(60)


@pytest.fixture(scope='module', params=['engine', 'sglang'])
def kind(request):
  return request.param


@pytest.fixture(scope='module')
def url(kind, model_dir, tmp_path_factory):
  log = tmp_path_factory.mktemp('served') / f'{kind}.log'
  if kind == 'engine':
    with engine(model_dir, log) as url:
      yield url
    return
  flags = ('--served-model-name', NAME, '--context-length', '1024')
  with server_lib.running(model_dir, log, *flags) as server:
    yield server.url


def test_openai_scores_prompts(url, reference):
  tokenizer = reference.model.tokenizer
  texts = [PARIS, 'na\u00efve \u2603 cats']
  with openai.OpenAI(
      base_url=f'{url}/v1', api_key='any', max_retries=0
  ) as client:
    assert client.models.retrieve(NAME).id == NAME
    assert [card.id for card in client.models.list().data] == [NAME]
    for prompt in (texts, [tokenizer.encode(text) for text in texts]):
      choices = client.completions.create(
          model=NAME,
          prompt=prompt,
          max_tokens=1,
          temperature=0,
          echo=True,
          logprobs=3,
      ).choices
      for text, choice in zip(texts, choices, strict=True):
        ids = tokenizer.encode(text)
        expected, _ = reference.score(ids)
        table = choice.logprobs
        assert choice.text.startswith(text)
        assert table.token_logprobs[0] is None
        assert len(table.tokens) == len(table.top_logprobs) == len(ids) + 1
        assert table.token_logprobs[1:-1] == pytest.approx(expected, abs=1e-4)


def test_openai_is_told_what_is_wrong(url):
  with openai.OpenAI(
      base_url=f'{url}/v1', api_key='any', max_retries=0
  ) as client:
    for change in (
        {'temperature': -1},
        {'top_p': 3},
        {'max_tokens': 5000},
        {'n': 0},
        {'messages': [{'role': ['user'], 'content': 'a'}]},
        {'stop': 5},
    ):
      ask = {'messages': [{'role': 'user', 'content': 'a'}], 'max_tokens': 1}
      with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model=NAME, **ask | change)
      assert refused.value.body['message']
      assert refused.value.body['object'] == 'error'


def test_litellm(url):
  said = json.loads(
      clients.run(
          clients.python('litellm'),
          *('litellm_client.py', url, NAME),
          LITELLM_LOCAL_MODEL_COST_MAP='True',
      ).splitlines()[-1]
  )
  for key in ('whole', 'stream', 'awaited', 'awaited_stream'):
    assert said[key] == PARIS
  assert said['completion'].startswith(' Paris')
  assert said['usage'] == said['tokens'] == 8
  assert said['finish_reason'] == 'stop'
  assert 'top_p must be in (0, 1], got 3' in said['refused']


def test_pydantic_ai(url, kind):
  run = lambda: clients.run(
      clients.python('clients'), 'pydantic_ai_client.py', url, NAME
  )
  if kind == 'sglang':
    # It checks OpenAI's schema, whose `metadata` is of strings; SGLang 0.5.23
    # has a list in it. Here is the reason why the engine does not.
    with pytest.raises(pytest.fail.Exception, match='metadata.weight_versions'):
      run()
    return
  said = json.loads(run())
  assert said['whole'] == said['stream'] == PARIS
  assert said['again'] == 'The capital of Spain is Madrid.'
  assert said['usage'] == 8
  status, body = said['refused']
  assert status == 400 and 'no place for tools' in body


def test_inspect_ai(url, tmp_path):
  said = json.loads(
      clients.run(
          clients.python('clients'),
          *('inspect_client.py', NAME, tmp_path / 'logs'),
          POLICY_BASE_URL=f'{url}/v1',
          POLICY_API_KEY='any',
      )
  )
  assert said['status'] == 'success', said
  assert said['outputs'][0] == PARIS
  assert said['scores'] == ['C', 'C', 'I']
  assert said['accuracy'] == pytest.approx(2 / 3)
  assert said['tokens'] == said['used']


def write_tasks(folder):
  """A task of log-probabilities and one of texts, for lm-evaluation-harness."""
  data = folder / 'documents.jsonl'
  data.write_text(''.join(f'{json.dumps(line)}\n' for line in DOCUMENTS))
  shared = {
      'dataset_path': 'json',
      'dataset_kwargs': {'data_files': {'test': str(data)}},
      'test_split': 'test',
      'doc_to_text': '{{question}}',
      'metadata': {'version': 1},
  }
  tasks = {
      'choices': {
          'output_type': 'multiple_choice',
          'doc_to_choice': 'choices',
          'doc_to_target': 'answer',
          'metric_list': [{'metric': 'acc'}],
      },
      'texts': {
          'output_type': 'generate_until',
          'doc_to_target': '{{choices[answer]}}',
          'generation_kwargs': {
              'until': ['\n', '.'],
              'max_gen_toks': 8,
              'temperature': 0,
          },
          'metric_list': [{'metric': 'exact_match'}],
      },
  }
  for name, task in tasks.items():
    # JSON is YAML.
    text = json.dumps({'task': f'local_{name}'} | shared | task)
    (folder / f'{name}.yaml').write_text(text)


def test_lm_evaluation_harness(url, reference, model_dir, tmp_path):
  write_tasks(tmp_path)
  server = (
      f'model={NAME},base_url={url}/v1/completions,tokenizer={model_dir},'
      'num_concurrent=2'
  )
  clients.run(
      clients.python('clients'),
      *('-m', 'lm_eval', 'run', '--model', 'local-completions'),
      *('--model_args', server, '--batch_size', 2),
      *('--tasks', 'local_choices', 'local_texts'),
      *('--include_path', tmp_path, '--log_samples'),
      *('--output_path', tmp_path / 'out'),
      HF_HOME=str(tmp_path / 'hf'),
  )
  read = lambda name: [
      json.loads(line)
      for path in (tmp_path / 'out').rglob(f'samples_local_{name}_*.jsonl')
      for line in path.read_text().splitlines()
  ]
  encode = reference.model.tokenizer.encode
  scored = read('choices')
  assert len(scored) == len(DOCUMENTS)
  for sample, document in zip(scored, DOCUMENTS, strict=True):
    size = len(encode(document['question']))
    answers = zip(sample['resps'], document['choices'], strict=True)
    sums = []
    for [[logprob, is_greedy]], choice in answers:
      ids = encode(f'{document["question"]} {choice}')
      expected, largest = reference.score(ids)
      assert float(logprob) == pytest.approx(
          expected[size - 1 :].sum(), abs=1e-4
      )
      assert is_greedy == str(bool(largest[size - 1 :].all()))
      sums.append(float(logprob))
    assert sample['acc'] == (np.argmax(sums) == document['answer'])
  assert {' Paris', ' cold'} <= {s['resps'][0][0] for s in read('texts')}


def test_bench_serving(url, model_dir, tmp_path):
  out = tmp_path / 'bench.jsonl'
  clients.run(
      server_lib.python(),
      *('-m', 'sglang.bench_serving', '--backend', 'sglang', '--base-url', url),
      *('--dataset-name', 'random-ids', '--random-range-ratio', 1),
      *('--random-input-len', 32, '--random-output-len', 8),
      *('--num-prompts', 6, '--max-concurrency', 3, '--output-file', out),
      *('--tokenizer', model_dir, '--model', model_dir),
  )
  [line] = out.read_text().splitlines()
  result = json.loads(line)
  assert result['completed'] == 6
  assert result['total_output_tokens'] == 6 * 8
  assert result['total_input_tokens'] >= 6 * 32
