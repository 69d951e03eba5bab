r"""Evaluates policies on fixed lists of held-out tasks, with intervals.

    python launch.py --config=configs/evaluate.py:model=runs/quickstart \
        --workdir=runs/quickstart-eval
    python launch.py --config=configs/evaluate.py:model=smollm2-135m,env=textcraft \
        --workdir=runs/smollm2-textcraft
    python launch.py --config=configs/evaluate.py:model=runs/quickstart/checkpoints/4 \
        --workdir=runs/quickstart-eval-4
    python launch.py --config=configs/evaluate.py:task_file=textcraft_test.json,n=100 \
        --workdir=runs/smollm2-items  # an item file of AgentGym
    python launch.py --config='configs/evaluate.py:model=runs/quickstart;expert' \
        --workdir=runs/both  # one after the other, on the same tasks
    python launch.py --config=configs/evaluate.py:model=expert,suite=text,samples=2 \
        --workdir=runs/expert  # several environments, see configs/suites.py
    python launch.py --config=configs/evaluate.py:model=http://127.0.0.1:30000,n=64 \
        --workdir=runs/served  # an SGLang server, or mode 'serve_policy'
    python launch.py --config=configs/evaluate.py:api=https://HOST/v1,api_model=NAME \
        --config.api.token_variable=API_KEY --workdir=runs/api
    python launch.py \
        --config='configs/evaluate.py:model=runs/quickstart,temperatures=0;0.5;1,samples=4,curves' \
        --workdir=runs/quickstart-curves

`model` is a run, its checkpoints/N or checkpoints/best, a Hugging Face folder, a hub
name, the URL of a server (its key: AGENTRL_SAMPLER_API_KEY), `api` for the
OpenAI-compatible endpoint of `api` and `api_model`, `expert` or `random`; `env` an
environment. Both take several, as A;B. The workdir of a training run, its checkpoints
and a folder that was exported from it bring their environment, their way of talking,
their limits and their tasks along: what is left open here is the run's. So does
mode 'serve_policy' of any of them, by its URL or as `api`. `n` is
the run's number of tasks, or else 100, `samples` are episodes of a task, and
`temperature=0` is greedy. `temperatures=0;0.5;1` evaluates each policy at each of
them, and `curves` also writes `curves.json`, `.md` and `.png`: success and pass@k
against turns, sampled tokens and temperature.

The same command continues an evaluation that was stopped or killed: only what is
missing or failed is played. The workdir gets `evaluation.json`, `.md` and `.csv`,
`summary.json`, and every episode below `episodes/eval/POLICY/`.
"""

from ml_collections import ConfigDict

from agentrl.config import defaults
from agentrl.inference.options import API
from configs.common import parse_arg
from configs.suites import SUITES


def get_config(arg: str | None = None) -> ConfigDict:
  arg = parse_arg(
      arg,
      model=str,
      api='',
      api_model=str,
      env='',
      suite='',
      n=int,
      samples=int,
      task_file='',
      temperature=1.0,
      temperatures=(),
      curves=False,
  )

  config = defaults('evaluate')
  config.model.name = arg.model
  if arg.model is None:
    config.model.name = API if arg.api else 'smollm2-135m'
  if arg.api:
    config.api = dict(url=arg.api, temperature=arg.temperature)
  if arg.api_model is not None:
    config.api.model = arg.api_model
  if arg.env:
    config.env.name = arg.env
  if arg.suite:
    if arg.suite not in SUITES:
      raise ValueError(
          f'Unknown suite {arg.suite!r}; known: {", ".join(SUITES)}.'
      )
    config.eval.panels = SUITES[arg.suite]
  if arg.n is not None:
    config.eval.num_tasks = arg.n
  if arg.samples is not None:
    config.eval.samples = arg.samples
  if arg.task_file:
    config.eval.task_file = arg.task_file
  config.eval.temperature = arg.temperature
  config.eval.temperatures = arg.temperatures
  config.eval.curves = arg.curves
  return config
