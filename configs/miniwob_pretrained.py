r"""GRPO on 31 small pages of MiniWoB++, from SmolLM2-135M, on a laptop.

    python launch.py --config=configs/miniwob_pretrained.py --workdir=runs/miniwob
    python launch.py --config=configs/miniwob_pretrained.py:tiny --workdir=runs/smoke

Not measured yet: experiments/2026-12-pretrained says what is. `algo` is any name of
configs/algorithms.py.
"""

from ml_collections import ConfigDict

from configs.common import parse_arg, pretrained, shrink_pretrained

# One to three commands each, on pages of some ten to twenty lines.
PAGES = (
    'click-button',
    'click-button-sequence',
    'click-checkboxes',
    'click-checkboxes-transfer',
    'click-collapsible',
    'click-dialog',
    'click-dialog-2',
    'click-link',
    'click-menu',
    'click-option',
    'click-tab',
    'click-tab-2-easy',
    'click-test',
    'click-test-2',
    'click-widget',
    'email-inbox-delete',
    'email-inbox-important',
    'enter-password',
    'enter-text',
    'enter-text-2',
    'enter-text-dynamic',
    'find-word',
    'focus-text-2',
    'login-user',
    'navigate-tree',
    'read-table',
    'simple-algebra',
    'simple-arithmetic',
    'text-transform',
    'unicode-test',
    'use-autocomplete',
)


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(arg, algo='grpo', model='smollm2-135m', tiny=False)

  config = pretrained(arg.algo, arg.model)
  config.num_steps = 12
  config.env.name = 'miniwob'
  config.env.options.update(tasks=PAGES, style='lean')
  config.warmstart.update(episodes=124, epochs=1, horizon=4)
  config.rollout.update(
      max_completion_tokens=24, max_context=1024, concurrency=16
  )
  config.horizon.turns = (2, 4)
  config.eval.update(num_tasks=124, horizon=4)

  if arg.tiny:  # two steps, to see that everything works
    shrink_pretrained(config)
  return config
