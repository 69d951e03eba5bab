r"""Faults in runs of real processes, and whether anything is lost by them.

    python -m tests.faults --out=runs/faults --faults=200 --seed=0

Each trial starts a small run, does a few things to it at moments that its seed
draws, starts the same command until it ends well, and compares all that it left
with a run that was left alone. Finished trials are lines of `log.jsonl` in the
folder, which another start goes on from; what was lost is kept beside it.
`--replay=LINE` plays the trial of a line again. Prints a table; exits with 1 if a
trial lost something.

Linux alone, as root or where users may make namespaces: the trials have processes,
ports, `/tmp` and `/dev/shm` of their own.
"""

import argparse
import itertools
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Collection

from agentrl.errors import ConfigError
from experiments.clusters import hosts
from tests.faults import draws, scenarios, table
from tests.faults.faults import FAULTS
from tests.faults.runs import PHASES
from tests.faults.trials import Trials

# Hides /tmp and /dev/shm but for some folders, which may be in /tmp.
_HIDE = """
set -e
mount -t tmpfs tmpfs /mnt
i=0
for kept in "$@"; do mkdir /mnt/$i; mount --bind "$kept" /mnt/$i; i=$((i+1)); done
mount -t tmpfs tmpfs /tmp
mount -t tmpfs -o size=256m tmpfs /dev/shm
i=0
for kept in "$@"; do mkdir -p "$kept"; mount --bind /mnt/$i "$kept"; i=$((i+1)); done
"""


def _parse(argv: list[str] | None) -> argparse.Namespace:
  parser = argparse.ArgumentParser(
      prog='python -m tests.faults', description=__doc__.partition('\n')[0]
  )
  parser.add_argument('--out', type=pathlib.Path, required=True)
  parser.add_argument('--faults', type=int, default=200, help='in all')
  parser.add_argument('--seed', type=int, default=0)
  parser.add_argument('--replay', type=int, help='line of the log, from 1')
  parser.add_argument('--trial', help='JSON of one trial, which is not logged')
  parser.add_argument('--table', action='store_true', help='print it alone')
  parser.add_argument('--scenarios', help='of these alone, with commas')
  parser.add_argument('--kinds', help='these faults alone, with commas')
  parser.add_argument('--phases', help='for the first fault of a run')
  return parser.parse_args(argv)


def _chosen(words: str, known: Collection[str]) -> list[str]:
  chosen = words.split(',')
  if unknown := [x for x in chosen if x not in known]:
    raise ConfigError(f'Unknown {unknown}; known: {", ".join(known)}.')
  return chosen


def main(argv: list[str] | None = None) -> int:
  args = _parse(argv)
  log = args.out / 'log.jsonl'
  if args.table:
    print(table.markdown(table.read(log)))
    return 0
  args.out.mkdir(parents=True, exist_ok=True)
  out = args.out.absolute()
  hosts.enter()
  kept = {str(x) for x in (out, scenarios.ROOT, pathlib.Path(sys.prefix))}
  subprocess.run(['sh', '-c', _HIDE, 'sh', *sorted(kept)], check=True)
  os.environ['AGENTRL_CACHE'] = str(out / 'cache')
  os.environ.pop('TMPDIR', None)
  trials = Trials(out)
  one = None
  if args.replay is not None:
    one = table.read(log)[args.replay - 1]
  elif args.trial is not None:
    one = json.loads(args.trial)
  if one is not None:
    result = trials.play(draws.from_line(one))
    print(json.dumps(result, indent=1))
    return int(result['outcome'] == 'lost')
  names = list(filter(scenarios.available, scenarios.SCENARIOS))
  if args.scenarios:
    names = _chosen(args.scenarios, scenarios.SCENARIOS)
  kinds = _chosen(args.kinds, FAULTS) if args.kinds else list(FAULTS)
  phases = [*PHASES, draws.RANDOM]
  if args.phases:
    phases = _chosen(args.phases, phases)
  done = table.read(log)
  count = sum(len(table.hits(x)) for x in done)
  played = {(x['seed'], x['number']) for x in done}
  for number in itertools.count():
    if count >= args.faults:
      break
    if (args.seed, number) in played:
      continue
    result = trials.play(draws.draw(number, args.seed, names, kinds, phases))
    table.append(log, result)
    print(json.dumps(result), flush=True)
    count += len(table.hits(result))
  results = table.read(log)
  print(table.markdown(results))
  return int(any(x['outcome'] == 'lost' for x in results))


if __name__ == '__main__':
  try:
    sys.exit(main())
  except ConfigError as error:
    print(error, file=sys.stderr)
    sys.exit(2)
