"""Starts servers that sample: the embedded engine, or SGLang's; or finds them."""

import contextlib
import dataclasses
import functools
import pathlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from agentrl.engine.options import EngineOptions
from agentrl.engine.server import Engine
from agentrl.http.auth import Keys
from agentrl.inference import router_check
from agentrl.inference.compatibility import RESERVED, Needs
from agentrl.inference.control import ControlClient
from agentrl.inference.replicas import Replicas
from agentrl.inference.sampler import Adapter, Sampler
from agentrl.models.config import LINEAR
from agentrl.parallel import distributed, ranks
from agentrl.runtime import shm
from agentrl.runtime.event_loop import EventLoop
from agentrl.serving import options, remote, sglang
from agentrl.serving.weight_sync import push as weight_sync
from agentrl.serving.weight_sync.disk import DiskPush, Files, Follower
from agentrl.serving.weight_sync.files import (
    AdapterFiles,
    ModelFiles,
    check_room,
)
from agentrl.training.language_model import (
    DTYPES,
    LanguageModel,
    check_context,
)
from agentrl.weights import families, peft

_SHM = pathlib.Path('/dev/shm')


@dataclasses.dataclass(frozen=True)
class Serving:
  """Servers that sample from the current policy, and how to update them.

  Attributes:
    urls: of the servers themselves, also where a router stands before them.
    push: updates them.
    make_sampler: `make_sampler(temperature=...)` gives a client; all clients
      count requests together.
    engine: the embedded one; None where servers are elsewhere.
  """

  urls: Sequence[str]
  push: weight_sync.Push
  make_sampler: Callable[..., Sampler]
  engine: Engine | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServedPolicy:
  """A policy as it is to be served.

  Attributes:
    model: network, parameters and tokenizer.
    version: of the parameters; a push's number, unless nothing is pushed.
    dtype: of activations.
    max_context: tokens of the longest request.
    seed: of the embedded engine.
    chat_template: of the embedded engine's chats: the agent's, so that a chat
      with the policy reads as its episodes do.
    chat_date: the day that it is told, likewise.
    trained_with: see `EngineOptions`.
    episodes: that sample from it at a time; None: unknown.
  """

  model: LanguageModel
  version: int | str
  dtype: str
  max_context: int
  seed: int
  chat_template: str | None
  chat_date: str | None
  trained_with: Mapping[str, Any] | None = None
  episodes: int | None = None


@dataclasses.dataclass(frozen=True)
class _Start:
  """Values that start servers."""

  stack: contextlib.ExitStack  # ends what is started
  loop: EventLoop
  policy: ServedPolicy
  sampler: options.SamplerOptions
  directory: pathlib.Path  # of the run
  needs: Needs


def start_engine(
    stack: contextlib.ExitStack,
    policy: ServedPolicy,
    sampler: options.EmbeddedOptions,
    *,
    host: str = '127.0.0.1',
    port: int = 0,
    keys: Keys = Keys(),  # noqa: B008  (frozen)
    reserved: int = 0,
    served_name: str | None = None,
) -> tuple[Engine, str]:
  """Starts the embedded engine; it stops when `stack` unwinds.

  It reports a context of `max_context + reserved` tokens, at most the model's
  positions and `RESERVED`. Prompts may not use `RESERVED` of them, so a run that
  needs all of `max_context` adds those.
  """
  model, dtype = policy.model, DTYPES[policy.dtype]
  positions = model.config.max_row
  engine = Engine(
      model.config,
      weight_sync.engine_layout(model.params, dtype, model.base),
      model.tokenizer,
      EngineOptions(
          eos_ids=model.tokenizer.eos_ids,
          model_path=model.path,
          served_name=served_name,
          trained_with=policy.trained_with,
          max_running=sampler.num_running(policy.episodes),
          max_len=min(policy.max_context, positions),
          context_length=min(
              policy.max_context + reserved, positions + RESERVED
          ),
          slots=sampler.num_slots(policy.episodes),
          dtype=dtype,
          seed=policy.seed,
          deterministic=sampler.deterministic,
          weight_version=str(policy.version),
          keys=keys,
          chat_template=policy.chat_template,
          chat_date=policy.chat_date,
      ),
  )
  url = engine.start(host, port)
  stack.callback(engine.free)
  stack.callback(engine.stop)  # before that
  return engine, url


def start_serving(
    stack: contextlib.ExitStack,
    loop: EventLoop,
    policy: ServedPolicy,
    sampler: options.SamplerOptions,
    directory: pathlib.Path,
) -> Serving:
  """Starts or finds the servers that sample, and gives them the policy.

  Args:
    stack: ends what is started here.
    loop: runs coroutines.
    policy: what to serve.
    sampler: the kind of servers.
    directory: the run's, for the logs of servers.

  Raises:
    AgentrlError: servers do not start, or do not take the weights.
    Interrupted: the user asked to stop.
  """
  model, shape = policy.model, policy.model.config
  check_context(shape, 'rollout.max_context', policy.max_context)
  family = families.FAMILIES[shape.family]
  needs = Needs(
      policy.max_context,
      shape.vocab_size,
      family.architecture,
      family.served_as,
      shape.family,
  )
  start = _Start(stack, loop, policy, sampler, directory, needs)
  if sampler.kind == 'sglang':
    _warn_unserved(start)
    return _launch(start) if sampler.launch.python else _find(start)
  engine, url = start_engine(stack, policy, sampler, reserved=RESERVED)
  push = weight_sync.EmbeddedPush(
      engine, dtype=DTYPES[policy.dtype], base=model.base
  )
  serving = _serving(start, [url], push, Replicas([url]))
  return dataclasses.replace(serving, engine=engine)


def _warn_unserved(start: _Start) -> None:
  """Warns of a policy that the newest SGLang which was read does not serve."""
  shape, launch = start.policy.model.config, start.sampler.launch
  reason = families.FAMILIES[shape.family].unserved
  instead = "sampler.kind='embedded'"
  dtype = launch.value_of('--dtype') or start.policy.dtype
  if (
      LINEAR in shape.mixers
      and launch.python
      and options.SERVER_DTYPES.get(dtype) == 'float32'
  ):
    reason = 'its kernels for linear attention do not compute in float32'
    instead = "model.dtype='bfloat16'"
  if reason:
    logging.warning(
        'SGLang 0.5.23 does not serve %s: %s. Unless a newer one does, set %s.',
        shape.family,
        reason,
        instead,
    )


def _serving(
    start: _Start,
    urls: Sequence[str],
    push: weight_sync.Push,
    replicas: Replicas,
    keys: Keys = Keys(),  # noqa: B008  (frozen)
) -> Serving:
  """Servers, and the way to them: `replicas`, or a router in their place."""
  sampler = start.sampler
  make_sampler = functools.partial(
      Sampler,
      start.loop.session,
      urls,
      timeout_s=sampler.timeout_s,
      max_attempts=sampler.max_attempts,
      api_key=keys.api,
      admin_key=keys.admin,
      replicas=replicas,
      accepts=push.accepts,
      adapter=functools.partial(_adapter, push) if sampler.push_lora else None,
      vocab_size=start.needs.vocab_size,
  )
  return Serving(urls, push, make_sampler)


def _adapter(push: weight_sync.Push) -> Adapter:
  """The adapter to request of servers, where adapters are pushed."""
  adapter = push.adapter
  assert adapter is not None  # requests come after the first push
  return adapter


def _find(start: _Start) -> Serving:
  """Servers that somebody else started; they may hold any weights."""
  loop, policy, sampler = start.loop, start.policy, start.sampler
  keys = remote.read_keys(sampler)
  client = lambda urls: ControlClient(
      loop.session,
      urls,
      timeout_s=sampler.timeout_s,
      api_key=keys.api,
      admin_key=keys.admin,
  )
  router = client([sampler.router]) if sampler.router else None
  if distributed.is_first():
    remote.warn_unreachable(sampler)

  async def find() -> tuple[ControlClient, list[dict[str, Any]]]:
    control = client(await router.workers() if router else sampler.urls)
    # A run that was killed in the middle of a push left them paused.
    await control.wait_ready(sampler.timeout_s, resume=True)
    return control, await control.probe(start.needs)

  control, infos = ranks.same(lambda: loop.run(find()))
  dtype = _file_dtype({info.get('dtype') for info in infos}, policy.dtype)
  replicas = Replicas([sampler.router] if sampler.router else control.urls)
  # All processes ask the same servers; one of them hands over the weights.
  push: weight_sync.Push
  if not distributed.is_first():
    push = Follower(_push_files(start, dtype))
  elif router:
    push = _disk_push(start, control, dtype, router=router)
  else:
    push = _disk_push(start, control, dtype)
  ranks.same(lambda: loop.run(push(policy.model.params, policy.version)))
  if router:
    arrive = lambda: router_check.check(
        router, vocab_size=start.needs.vocab_size, lora=sampler.push_lora
    )
    ranks.same(lambda: loop.run(arrive()))
  elif isinstance(push, DiskPush):
    _watch(start, replicas, push, keys)
  return _serving(start, control.urls, push, replicas, keys)


def _watch(
    start: _Start, replicas: Replicas, push: DiskPush, keys: Keys
) -> None:
  """Lets the run go on without servers of somebody else that are away.

  Each gets the current weights and then requests when it answers again. The first
  push was to all of them: one that does not run at the start is a mistake.
  """
  push.watched = replicas
  fleet = sglang.Fleet(
      [remote.Found(url, keys) for url in replicas.urls],
      remote.patience(start.sampler),
      replicas,
      push,
      needs=start.needs,
      timeout_s=start.sampler.timeout_s,
      serving=True,
  )
  start.stack.callback(fleet.stop)
  fleet.start()


def _launch(start: _Start) -> Serving:
  """Servers of this run; they start from its weights."""
  loop, policy, sampler = start.loop, start.policy, start.sampler
  launch, prefix = sampler.launch, ''
  if distributed.count() > 1:  # each has servers and a folder of its own
    prefix = f'{distributed.index()}-'
    if sampler.push_dir:
      folder = pathlib.Path(sampler.push_dir) / f'process_{distributed.index()}'
      sampler = dataclasses.replace(sampler, push_dir=str(folder))
      start = dataclasses.replace(start, sampler=sampler)
  # A request of the full length needs it, even where the model has fewer
  # positions: no token is ever at the reserved ones.
  context = policy.max_context + RESERVED
  flags = ['--dtype', policy.dtype, '--context-length', str(context)]
  if sampler.push_lora:
    lora = policy.model.lora
    flags += ['--enable-lora', '--max-lora-rank', str(lora.rank)]
    modules = peft.modules(policy.model.config, lora)
    flags += ['--lora-target-modules', *modules]
  servers = [
      sglang.Server(
          launch,
          port,
          start.directory / 'servers' / f'{prefix}{i}.log',
          flags=flags,
          devices=launch.devices[i] if launch.devices else None,
      )
      for i, port in enumerate(sglang.ports(launch))
  ]
  replicas = Replicas([server.url for server in servers])
  control = ControlClient(
      loop.session, replicas.urls, timeout_s=sampler.timeout_s
  )
  serve = {launch.value_of('--dtype') or policy.dtype}
  dtype = _file_dtype(serve, policy.dtype)
  push = _disk_push(start, control, dtype, watched=replicas)

  def bring_up() -> None:
    push.start_from(push.write(policy.model.params, policy.version))
    fleet = sglang.Fleet(
        servers,
        launch,
        replicas,
        push,
        needs=start.needs,
        timeout_s=sampler.timeout_s,
    )
    start.stack.callback(fleet.stop)
    fleet.start()
    loop.run(fleet.started())
    loop.run(push.use_current_adapter())

  ranks.same(bring_up)
  return _serving(start, replicas.urls, push, replicas)


def _disk_push(
    start: _Start, control: ControlClient, dtype: str, **watch: Any
) -> DiskPush:
  """A push to servers, see `_push_files`.

  Args:
    start: of the servers.
    control: their client.
    dtype: of the files.
    **watch: see `DiskPush`.
  """
  sampler = start.sampler
  folder = _push_folder(start.stack, start.policy.model, sampler, dtype)
  tokenizer_files = folder / 'tokenizer'
  start.policy.model.tokenizer.save(tokenizer_files)
  return DiskPush(
      control,
      folder,
      _push_files(start, dtype, tokenizer_files),
      mode=sampler.push,
      verify=sampler.verify,
      timeout_s=sampler.timeout_s,
      **watch,
  )


def _push_files(
    start: _Start, dtype: str, tokenizer_files: pathlib.Path | None = None
) -> Files:
  """The files of a push; all processes of a run ask for them at the same time.

  Args:
    start: of the servers.
    dtype: of the files.
    tokenizer_files: see `ModelFiles`; None: another process writes them.
  """
  model, sampler = start.policy.model, start.sampler
  files = ModelFiles(
      model.config,
      dtype=dtype,
      base=None if sampler.push_lora else model.base,
      shard_bytes=sampler.shard_bytes,
      eos_ids=model.tokenizer.eos_ids,
      tokenizer_files=tokenizer_files,
  )
  if not sampler.push_lora:
    return files
  # The same in all processes.
  run = distributed.share(uuid.uuid4().hex[:8].encode())[0].decode()
  assert model.base is not None  # else push_lora has no effect, and is refused
  return AdapterFiles(files, model.base, model.lora, run)


def _push_folder(
    stack: contextlib.ExitStack,
    model: LanguageModel,
    sampler: options.SamplerOptions,
    dtype: str,
) -> pathlib.Path:
  """The config's folder, or one in memory that is removed with the run."""
  if sampler.push_dir:
    return pathlib.Path(sampler.push_dir)
  shm.remove_unused(_SHM)
  version_bytes = model.config.num_params * np.dtype(dtype).itemsize
  check_room(_SHM, 2 * version_bytes)
  return stack.enter_context(shm.folder(_SHM))


def _file_dtype(serve: set[Any], dtype: str) -> str:
  """The type of files for servers that report to compute in `serve`.

  A server rounds the weights that it reads, so files of its own type are the
  smallest that lose nothing.
  """
  dtypes = {options.SERVER_DTYPES.get(value) for value in serve}
  [server_dtype] = dtypes if len(dtypes) == 1 else [None]
  if server_dtype is None:  # 'auto', which follows the files
    return dtype
  if server_dtype != dtype:
    logging.warning(
        'The servers compute in %s, the trainer in %s: their log-probabilities'
        ' will differ. Start servers with --dtype %s, or set model.dtype.',
        *(server_dtype, dtype, dtype),
    )
  return server_dtype
