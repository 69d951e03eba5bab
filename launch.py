"""Runs a config from a clone: `python launch.py --config=configs/NAME.py --workdir=DIR`.

`python -m agentrl.launch` is the same from any folder, and says more with `--help`.
"""

from agentrl.launch import run

if __name__ == '__main__':
  run()
