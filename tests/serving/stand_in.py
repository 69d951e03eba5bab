"""A server process that starts in a tenth of a second, for tests of its keeper.

    python -m tests.serving.stand_in --model-path DIR --port 30000

Answers what a fleet and its sampler ask, without a model: its tokens depend on
the weights' version and the seed. Standard library only, for the same reason.
"""

import argparse
import http.server
import json
import random

VOCAB_SIZE = 300


class _Handler(http.server.BaseHTTPRequestHandler):
  """One route a method, by its name."""

  protocol_version = 'HTTP/1.1'
  # The class's, as each connection has an object of its own.
  version = 'default'  # of the weights
  max_input = None  # tokens of a prompt

  def do_GET(self):
    self._answer({})

  def do_POST(self):
    size = int(self.headers.get('Content-Length', 0))
    self._answer(json.loads(self.rfile.read(size)))

  def log_message(self, *args):
    del args

  def _answer(self, body):
    answer = getattr(self, self.path.strip('/'))
    status, reply = answer(body)
    data = json.dumps(reply).encode()
    self.send_response(status)
    self.send_header('Content-Type', 'application/json')
    self.send_header('Content-Length', str(len(data)))
    self.end_headers()
    self.wfile.write(data)

  def health(self, body):
    del body
    return 200, {}

  pause_generation = continue_generation = health

  def model_info(self, body):
    del body
    return 200, {'weight_version': self.version}

  def server_info(self, body):
    del body
    return 200, {'version': 'agentrl', 'max_req_input_len': self.max_input}

  def update_weights_from_disk(self, body):
    type(self).version = body['weight_version']
    return 200, {'success': True, 'message': ''}

  def generate(self, body):
    params = body['sampling_params']
    if any(int(i) >= VOCAB_SIZE for i in params.get('logit_bias', ())):
      return 400, {'error': {'message': 'a bias on an unknown id'}}
    rng = random.Random(f'{self.version}/{params.get("sampling_seed")}')
    ids = [rng.randrange(VOCAB_SIZE) for _ in range(params['max_new_tokens'])]
    return 200, {
        'output_ids': ids,
        'meta_info': {
            'id': body.get('rid', 'x'),
            'finish_reason': {'type': 'length'},
            'prompt_tokens': len(body['input_ids']),
            'completion_tokens': len(ids),
            'weight_version': self.version,
            'output_token_logprobs': [[-1.0, i, None] for i in ids],
        },
    }


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument('--model-path', required=True)
  parser.add_argument('--host')
  parser.add_argument('--port', type=int)
  parser.add_argument('--context-length', type=int, required=True)
  parser.add_argument('--skip-server-warmup', action='store_true')
  args = parser.parse_args()
  _Handler.max_input = args.context_length - 6  # as SGLang
  where = args.host, args.port
  with http.server.ThreadingHTTPServer(where, _Handler) as server:
    print('Serving', flush=True)
    server.serve_forever()


if __name__ == '__main__':
  main()
