"""Steps of the cases of the differential test: each a dictionary.

- `send`: method and path; with `body` (JSON), `raw` (bytes) and `headers`;
- `start`: sends in the background under that name, `join` waits for its reply;
- `first`: waits for the first chunk of a started stream;
- `waits`: a started request must still be without an answer;
- `free`: the reply is not compared;
- `loose`: the counts of the reply depend on speed;
- `idle`: waits until the server has no request.

`<weights>` in a body is the model path of the server; `<context>`, `<vocab>`,
`<eos>` and sums of these with integers are numbers of its model.
"""

from typing import Any

Step = dict[str, Any]

PROMPT = [5, 6, 7]
JSON = {'Content-Type': 'application/json'}
# More than either server samples while a few other requests are answered.
LONG = {'max_new_tokens': 900, 'ignore_eos': True}
# Enough for a few requests to be answered meanwhile, by a server on a CPU.
FEW = {'max_new_tokens': 150, 'ignore_eos': True}
# Ends with the first token, the end id of the model.
END = {'logit_bias': {'<eos>': 1000}, 'ignore_eos': False}
# Cases whose names begin so send requests to a server that samples, or has
# been paused, and depend on what it has sampled until then.
RACES = ('running:', 'paused:')
# Cases whose names begin so change what others see, or depend on it.
APART = RACES + ('alone:', 'control:', 'state:', 'idle:', 'cache:')


def post(path: str, body: Any = None, **more: Any) -> Step:
  step = {'send': f'POST /{path}'} | more
  return step if body is None else step | {'body': body}


def get(path: str, **more: Any) -> Step:
  return {'send': f'GET /{path}'} | more


def generate(params: dict | None = None, **body: Any) -> Step:
  """A POST /generate of few greedy tokens; `params` change what is sampled."""
  sampling = {'max_new_tokens': 3, 'temperature': 0, 'ignore_eos': True}
  if 'text' not in body:
    body = {'input_ids': PROMPT} | body
  return post('generate', {'sampling_params': sampling | (params or {})} | body)


def run(name: str, params: dict | None = None, **body: Any) -> Step:
  """Starts a long stream under a name."""
  step = generate(LONG | (params or {}), stream=True, **body)
  return step | {'start': name, 'loose': True}
