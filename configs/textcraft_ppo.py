r"""PPO on TextCraft, with a critic of its own.

The batch, policy rate, KL and horizon are those of textcraft_grpo.py; the
critic's rate (1e-5), value clip (0.5), gamma and lambda (1) those of the
original's default PPO config, whose own PPO could not run.
No run of the original's size has been made with this code yet.

    python launch.py --config=configs/textcraft_ppo.py:model=DIR \
        --workdir=runs/textcraft_ppo
    python launch.py --config=configs/textcraft_ppo.py:model=smollm2-135m,tiny \
        --workdir=runs/smoke  # two real steps on a CPU, some minutes
"""

from ml_collections import ConfigDict

from configs import textcraft_grpo


def get_config(arg: str | None = None) -> ConfigDict:
  return textcraft_grpo.get_config(f'algo=ppo,{arg or ""}')
