"""The parts of a run that learns, made in the order in which they can fail."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jax.sharding import Mesh

from agentrl import config as config_lib, trackers
from agentrl.config import modes, resume
from agentrl.config.mixture import Member
from agentrl.config.modes import Learning
from agentrl.data import packing
from agentrl.errors import CheckpointError, ConfigError, of_member
from agentrl.evaluation.results import Panel
from agentrl.models import variants
from agentrl.modes import held_out
from agentrl.modes.session import Session
from agentrl.parallel import distributed, meshes, ranks
from agentrl.rollout import collector as collector_lib
from agentrl.rollout.agent import make_agent
from agentrl.rollout.collector import Collector
from agentrl.rollout.environment import Environment
from agentrl.serving import remote
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.trackers import Tracker
from agentrl.training import adapters, language_model
from agentrl.training.checkpoint import Checkpoints
from agentrl.training.language_model import DTYPES, LanguageModel
from agentrl.training.run_record import RunRecord
from agentrl.training.supervised import Network


@dataclasses.dataclass(frozen=True)
class Arena:
  """One environment of a run.

  Attributes:
    name: of the member of a mixture; '' where the run has no other.
    weight: of its tasks among those of all.
    config: of the run, with the sections of this member.
    environment: that is learnt in.
    tasks: to train on.
    panel: of evaluations; None: there is none.
    small_panel: the part of it that is played more often; None: none is.
  """

  name: str
  weight: float
  config: Learning
  environment: Environment
  tasks: Sequence[int]
  panel: Panel | None
  small_panel: Panel | None


@dataclasses.dataclass(frozen=True)
class Setup:
  """The parts of a run before there is a policy.

  Attributes:
    session: config, workdir, event loop.
    record: of metrics and evaluations.
    mesh: the devices.
    checkpoints: of the run.
    arenas: its environments, one at least.
  """

  session: Session
  record: RunRecord
  mesh: Mesh
  checkpoints: Checkpoints
  arenas: Sequence[Arena]

  @property
  def arena(self) -> Arena:
    """The only environment of a run that has no mixture."""
    (arena,) = self.arenas
    return arena

  def claim(self) -> None:
    """Keeps the run in its workdir, once all of it was checked."""
    self.session.claim()
    self.record.begin(self.session.config.mode)


@dataclasses.dataclass(frozen=True)
class Run(Setup):
  """All parts of a run.

  Attributes:
    model: the policy, without the parameters that are trained.
    network: what losses are compiled for.
    adapter: description of a low-rank adapter for checkpoints; None: none.
    collectors: play episodes, by the name of the arena; the agent of each is
      how the policy talks there.
  """

  model: LanguageModel
  network: Network
  adapter: dict[str, Any] | None
  collectors: Mapping[str, Collector]

  @property
  def collector(self) -> Collector:
    """The collector of the only environment."""
    return self.collectors[self.arena.name]


def make_setup(
    session: Session,
    *,
    expert: bool,
    members: Sequence[Member] = (),
) -> Setup:
  """The mesh and the checkpoints, and the environment of each member.

  Args:
    session: of the run.
    expert: True where environments that are trained in must offer an expert.
    members: of a mixture; none: the run has the environment of its config.

  Raises:
    AgentrlError: something that the user can mend; names the member.
  """
  config = session.config
  # Before the checkpoints: it ends once the last of them is complete.
  record = session.stack.enter_context(
      RunRecord(
          session.directory,
          session.console,
          writes=session.first,
          trackers=_make_trackers(session),
      )
  )
  mesh = meshes.make(config.mesh, packing.LENGTHS)
  checkpoints = session.stack.enter_context(
      Checkpoints(
          session.directory / 'checkpoints', keep=config.checkpoint.keep
      )
  )
  arenas = []
  for member in members or [Member('', 1.0, config)]:
    with of_member(member.name):
      arenas.append(_enter(session, member, expert))
  remote.read_keys(config.sampler)
  if session.first:
    remote.warn_unreachable(config.sampler)
  return Setup(session, record, mesh, checkpoints, arenas)


def _enter(session: Session, member: Member, expert: bool) -> Arena:
  """The environment of a member, its tasks to train on, and its panels."""
  config, learns = member.config, member.weight > 0
  environment = session.stack.enter_context(
      Environment(
          session.loop,
          config.env,
          task_file=config.env.task_file,
          # Elsewhere a server without one is found out by the first episodes.
          expert=(expert and learns)
          or (config.plays_chance and not config.env.urls),
          begin=session.begin_env,
      )
  )
  tasks = environment.tasks('train')
  # Refused now rather than after an hour.
  panels = held_out.make_panels(environment, config)
  panel = panels[0]
  if learns and panel and (seen := held_out.overlap(panel, tasks)):
    session.console.print(
        f'{seen} of the {len(panel.task_ids)} tasks of evaluations are among'
        ' those to train on: success on them is not of held-out tasks. Keep'
        f' the splits of {environment.name} apart, or the task files.',
        highlight=False,
        soft_wrap=True,
    )
  return Arena(member.name, member.weight, config, environment, tasks, *panels)


def _make_trackers(session: Session) -> dict[str, Tracker]:
  """The trackers of process 0; closed at the end of the run."""
  if not session.first:
    return {}
  track = session.config.track
  by_name = trackers.make(
      track.to,
      session.directory,
      config_lib.record(session.config),
      project=track.project,
      name=track.name,
  )
  for tracker in by_name.values():
    session.stack.callback(tracker.finish)
  return by_name


def make_run(
    setup: Setup, texts: Callable[[], Sequence[str]]
) -> tuple[Run, Any]:
  """The parts of the run, and the parameters that it begins with.

  Args:
    setup: the other parts.
    texts: gives what the tokenizer of a random network is trained on.
  """
  session, config = setup.session, setup.session.config
  model = _load(setup, texts)
  # Here as well as where sampling starts: sft may do without.
  language_model.check_context(
      model.config, 'rollout.max_context', config.rollout.max_context
  )
  if config.model.lora.rank:
    params, base = adapters.attach(
        model.config,
        model.params,
        config.model.lora,
        seed=session.seed('lora'),
        mesh=setup.mesh,
    )
    model = dataclasses.replace(
        model, params=params, base=base, lora=config.model.lora
    )
  network = Network(
      language_model.make_module(model.config, config.model),
      setup.mesh,
      model.base,
      offload='optimizer' in config.mesh.offload,
  )
  run = Run(
      **vars(setup),
      model=dataclasses.replace(model, params=None),
      network=network,
      adapter=adapters.describe(model.base, config.model),
      collectors={
          arena.name: _collector(session, arena, model.tokenizer)
          for arena in setup.arenas
      },
  )
  return run, model.params


def _load(setup: Setup, texts: Callable[[], Sequence[str]]) -> LanguageModel:
  """The pretrained model, or a random one with a tokenizer of its own."""
  session, settings = setup.session, setup.session.config.model
  path = session.directory / 'tokenizer'
  if not settings.from_scratch:
    if distributed.agree(
        resume.start_is_gone(settings.name, session.directory)
    ):
      return _load_checkpoint(setup)
    session.console.print(f'Loading {settings.name}')
    # Trained parameters are kept in float32; a frozen base need not be.
    dtype = settings.dtype if settings.lora.rank else 'float32'
    model, _ = language_model.load_policy(
        settings.name, setup.mesh, dtype=DTYPES[dtype]
    )
    # The workdir is whole by itself: what the policy started from may go.
    if not distributed.agree(session.resumed and path.exists()):
      if session.first:
        model.tokenizer.save(path)
      distributed.wait('tokenizer')
    return model
  shape = variants.get(settings.name, settings.vocab_size)
  # A tokenizer of a run that was refused may be of other tasks.
  if not distributed.agree(session.resumed and path.exists()):
    session.console.print(f'Training a tokenizer of {shape.vocab_size} tokens')
    tokenizer = tokenizer_lib.train_bpe(texts(), shape.vocab_size)
    if session.first:
      tokenizer.save(path)
    distributed.wait('tokenizer')
  return language_model.init_random(
      shape,
      tokenizer_lib.load(path),
      seed=session.seed('init'),
      path=str(path),
      mesh=setup.mesh,
  )


def _load_checkpoint(setup: Setup) -> LanguageModel:
  """The policy as the workdir has it, where the one it started from is gone.

  Raises:
    CheckpointError: that is not enough to go on.
  """
  session, config = setup.session, setup.session.config
  name = config.model.name
  missing = None
  if config.model.lora.rank:
    missing = 'its adapter adds to that'
  elif config.mode == 'agentevol':
    missing = 'each round begins with that'
  elif setup.checkpoints.latest is None:
    missing = 'there is no checkpoint yet'
  if missing:
    raise CheckpointError(
        f'The run in {session.directory} started from {name}, which is not'
        f' there, and {missing}: put it back.'
    )
  session.console.print(
      f'{name} is gone: going on from the checkpoint alone', highlight=False
  )
  model, _ = language_model.load_checkpoint(session.directory, mesh=setup.mesh)
  return model


def _collector(
    session: Session, arena: Arena, tokenizer: tokenizer_lib.Tokenizer
) -> Collector:
  return Collector(
      session.loop,
      session.console,
      arena.environment,
      make_agent(arena.environment.spec, tokenizer, arena.config.agent),
      arena.config.rollout,
      arena.name,
      ranks,
  )


def check_texts(config: modes.Train) -> None:
  """Refuses a tiny policy that would have no text to train a tokenizer on.

  Raises:
    ConfigError: says the way out.
  """
  if config.model.from_scratch and not config.warmstart.episodes:
    raise ConfigError(
        'A tiny policy needs warmstart.episodes: its tokenizer is trained on'
        " the expert's episodes. Where there is no expert it learns from a"
        ' file first: configs/textcraft_sft.py:data=FILE,model=NAME, and then'
        ' that workdir as model.name.'
    )


def expert_texts(session: Session, arena: Arena, horizon: int) -> list[str]:
  """Texts that the policy will read and write, from the expert's episodes."""
  return collector_lib.expert_texts(
      lambda tokenizer: _collector(session, arena, tokenizer),
      horizon=horizon,
      seed=session.config.seed,
  )
