"""Stands in for docker where no engine runs: its containers are namespaces.

It takes the flags that it knows, as docker writes them, and writes each line of
arguments into $DOCKER_STAND_IN/asked.jsonl.
"""

import argparse
import json
import os
import pathlib
import shutil
import sys
import uuid

from agentrl.envs.adapters.harbor.namespaces import Namespace, NamespaceImage
from agentrl.errors import AgentrlError

HOME = pathlib.Path(os.environ['DOCKER_STAND_IN'])


def parser():
  made = argparse.ArgumentParser(allow_abbrev=False)
  commands = made.add_subparsers(dest='command', required=True)
  commands.add_parser('info')
  build = commands.add_parser('build')
  build.add_argument('--quiet', action='store_true')
  build.add_argument('context', type=pathlib.Path)
  run = commands.add_parser('run')
  for flag in ('--detach', '--rm', '--init'):
    run.add_argument(flag, action='store_true')
  for flag in ('name', 'label', 'network', 'cpus', 'memory', 'entrypoint'):
    run.add_argument(f'--{flag}')
  run.add_argument('--env', action='append', default=[])
  run.add_argument('image')
  run.add_argument('arguments', nargs='*')
  execute = commands.add_parser('exec')
  for flag in ('workdir', 'user'):
    execute.add_argument(f'--{flag}')
  execute.add_argument('--env', action='append', default=[])
  execute.add_argument('name')
  execute.add_argument('arguments', nargs=argparse.REMAINDER)
  copy = commands.add_parser('cp')
  copy.add_argument('source')
  copy.add_argument('target')
  remove = commands.add_parser('rm')
  remove.add_argument('--force', action='store_true')
  remove.add_argument('name')
  return made


def box(name):
  """The namespace of a container."""
  folder = HOME / 'containers' / name
  about = json.loads((folder / 'about.json').read_text())
  return Namespace(folder / 'root', about['workdir'], about['env'], None)


def main(args):
  """Does a command; returns how it exits."""
  if args.command == 'build':
    folder = HOME / 'images' / uuid.uuid4().hex
    folder.mkdir(parents=True)
    image = NamespaceImage(
        folder, (args.context / 'Dockerfile').read_text(), args.context
    )
    about = {'workdir': image.workdir, 'env': image.env}
    (folder / 'about.json').write_text(json.dumps(about))
    print(f'sha256:{folder.name}')
  elif args.command == 'run':
    assert (args.entrypoint, args.detach) == ('sleep', True)
    image = HOME / 'images' / args.image.removeprefix('sha256:')
    folder = HOME / 'containers' / args.name
    folder.mkdir(parents=True)
    shutil.copytree(image / 'image', folder / 'root', symlinks=True)
    about = json.loads((image / 'about.json').read_text())
    about['env'] |= {name: os.environ[name] for name in args.env}
    (folder / 'about.json').write_text(json.dumps(about))
  elif args.command == 'exec':
    # In words of a shell, as they are.
    env = {name: os.environ[name] for name in args.env}
    words = [*args.arguments]
    timeout = float(words[2]) if words[0] == 'timeout' else None
    ran = box(args.name).run(words[-1], timeout, env=env)
    sys.stdout.write(ran.output)
    return 137 if ran.code is None else ran.code
  elif args.command == 'cp':
    name, _, target = args.target.partition(':')
    box(name).put(pathlib.Path(args.source.removesuffix('/.')), target)
  elif args.command == 'rm':
    shutil.rmtree(HOME / 'containers' / args.name)
  return 0


if __name__ == '__main__':
  HOME.mkdir(exist_ok=True)
  with (HOME / 'asked.jsonl').open('a') as file:
    file.write(json.dumps(sys.argv[1:]) + '\n')
  try:
    sys.exit(main(parser().parse_args()))
  except AgentrlError as error:
    print(error, file=sys.stderr)
    sys.exit(1)
