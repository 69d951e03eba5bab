"""The other end of `peers.Peer`: a task a line in, an answer a line out.

Runs under a peer's interpreter, so it needs the standard library alone.
"""

import json
import os
import sys


def serve(start):
  """Answers until the input ends.

  Args:
    start: takes the shape of the model; gives what to tell of it, and a
      dictionary of functions, by the name of the task that they do.
  """
  # Answers go where stdout went; what libraries print goes to stderr.
  answers = os.fdopen(os.dup(1), 'w')
  os.dup2(2, 1)
  answer = lambda value: print(json.dumps(value), file=answers, flush=True)
  about, tasks = start(json.loads(sys.stdin.readline()))
  answer(about)
  for line in sys.stdin:
    request = json.loads(line)
    answer(tasks[request.pop('task')](**request))
  os._exit(0)  # a trainer may be held in a thread that never ends
