r"""Says what this machine lacks for a config, and the remedy of each fault.

    python launch.py --config=configs/doctor.py:config=configs/quickstart.py
    python launch.py --config='configs/doctor.py:config=configs/textcraft_grpo.py:model=qwen2.5-7b;tiny' \
        --workdir=runs/textcraft
    python launch.py --config=configs/doctor.py:config=configs/sciworld_grpo.py \
        --config.doctor.flags="('mesh.fsdp=8', 'env.url=http://127.0.0.1:36001')"

Versions, devices, memory, disk, ports, Java, browser, model, keys and URLs: some
seconds, nothing is started or written. Arguments of the config file are parted by
`;`. The exit status is 1 if there is a fault.
"""

from ml_collections import ConfigDict

from agentrl.config import defaults
from configs.common import parse_arg


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, config='configs/quickstart.py')

  config = defaults('doctor')
  config.doctor.config = arg.config
  return config
