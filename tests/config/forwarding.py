"""An inference server that has no model: another one answers its requests.

    python -m tests.config.forwarding --to HOST:PORT --key KEY --port 30000

It takes the place of `launch_server` in runs of which nothing but the fields that
they read is looked at: it starts in no time.
"""

import argparse
import http.client
import http.server


def main():
  parser = argparse.ArgumentParser(allow_abbrev=False)
  parser.add_argument('--to', required=True, help='HOST:PORT of the other one')
  parser.add_argument('--key', required=True, help='which opens its routes')
  parser.add_argument('--host', required=True)
  parser.add_argument('--port', type=int, required=True)
  args, _ = parser.parse_known_args()  # and what a model needs

  class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def forward(self):
      body = self.rfile.read(int(self.headers.get('Content-Length', 0)))
      other = http.client.HTTPConnection(args.to, timeout=600)
      headers = {
          'Authorization': f'Bearer {args.key}',
          'Content-Type': self.headers.get('Content-Type', 'application/json'),
      }
      other.request(self.command, self.path, body, headers)
      reply = other.getresponse()
      said = reply.read()
      other.close()
      self.send_response(reply.status)
      kind = reply.getheader('Content-Type', 'application/json')
      self.send_header('Content-Type', kind)
      self.send_header('Content-Length', str(len(said)))
      self.end_headers()
      self.wfile.write(said)

    do_GET = do_POST = forward

    def log_message(self, *_):
      pass

  # Many connect at once.
  http.server.ThreadingHTTPServer.request_queue_size = 128
  address = args.host, args.port
  with http.server.ThreadingHTTPServer(address, Handler) as server:
    server.serve_forever()


if __name__ == '__main__':
  main()
