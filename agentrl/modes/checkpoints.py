"""Checkpoints of a run: all that it needs to go on, and their return."""

import dataclasses
from typing import Any

from agentrl.modes.build import Run
from agentrl.parallel import ranks
from agentrl.training import adapters, checkpoint as checkpoint_lib
from agentrl.training.state import TrainState


def save(
    run: Run, state: TrainState, loop: dict[str, Any], *, ref_params: Any = None
) -> None:
  """Starts a checkpoint of all that the run needs to go on.

  Args:
    run: of the mode.
    state: after step `loop['step']`.
    loop: the loop's own state, JSON values; has `policy_version`.
    ref_params: of the reference policy, if there is one.
  """
  run.claim()  # a run that does not sample has not yet
  checkpoint_lib.save(
      run.checkpoints,
      state,
      ref_params,
      {
          'books': loop,
          **run.record.state(),
          'model': dataclasses.asdict(run.model.config),
          'adapter': run.adapter,
      },
  )


def restore(
    run: Run, like: TrainState, *, reference: bool = False
) -> tuple[TrainState, Any, dict[str, Any]]:
  """Brings the newest checkpoint back, and sets later records aside.

  Returns:
    The state, the reference's parameters (None without one), the loop's state.
  """
  host = run.checkpoints.host()
  place = f'The checkpoint in {run.session.directory}'
  checkpoint_lib.check_model(host['model'], run.model.config, place)
  adapters.check(host.get('adapter'), run.adapter, place)
  state, ref_params = checkpoint_lib.restore(
      run.checkpoints, like, reference=reference
  )
  step = host['books']['step']
  run.record.restore(host)
  # Process 0 may set the file aside before another one has read it.
  [ended] = ranks.gather(
      lambda: [run.record.summarised(step)] if run.session.first else []
  )
  run.record.recall(ended)
  lines = run.record.discard_from(step)
  run.session.console.print(
      f'Continuing after step {step}'
      + (f'; {lines} later lines of metrics set aside' if lines else '')
  )
  return state, ref_params, host['books']
