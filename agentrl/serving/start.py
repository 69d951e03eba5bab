"""Who samples: the embedded engine, or SGLang servers found or started."""

import contextlib
import dataclasses
import functools
import pathlib
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from absl import logging

from agentrl.config import sampler as sampler_lib
from agentrl.engine.options import EngineOptions
from agentrl.engine.server import Engine
from agentrl.http.auth import Keys
from agentrl.inference import router_check
from agentrl.inference.compatibility import RESERVED, Needs
from agentrl.inference.control import ControlClient
from agentrl.inference.replicas import Replicas
from agentrl.inference.sampler import Adapter, Sampler
from agentrl.parallel import distributed
from agentrl.runtime import shm
from agentrl.runtime.event_loop import EventLoop
from agentrl.serving import remote, sglang
from agentrl.training import ranks
from agentrl.training.language_model import (
    DTYPES,
    LanguageModel,
    check_context,
)
from agentrl.training.weight_sync import push as weight_sync
from agentrl.training.weight_sync.adapter import (
    AdapterPush,
    GatheredAdapterPush,
)
from agentrl.training.weight_sync.disk import DiskPush, check_room
from agentrl.weights import families, peft

_SHM = pathlib.Path('/dev/shm')


@dataclasses.dataclass(frozen=True)
class Serving:
  """Servers that sample from the current policy, and how to update them."""

  urls: Sequence[str]  # of the servers themselves
  replicas: Replicas  # who gets requests: those, or a router before them
  push: weight_sync.Push
  vocab_size: int  # of the policy
  # Weight versions of use; None: there is one engine, and it is the run's own.
  accepts: Callable[[str], bool] | None = None
  # What requests ask for, where adapters are pushed; None: nothing.
  adapter: Callable[[], Adapter] | None = None
  keys: Keys = Keys()


def start_engine(
    stack: contextlib.ExitStack,
    model: LanguageModel,
    *,
    sampler: sampler_lib.Engine,
    max_context: int,
    dtype: str,
    seed: int,
    version: str,
    host: str = '127.0.0.1',
    port: int = 0,
    keys: Keys = Keys(),  # noqa: B008  (frozen)
    chat_template: str | None = None,
    reserved: int = 0,
    served_name: str | None = None,
) -> tuple[Engine, str]:
  """Starts the embedded engine; it stops when `stack` unwinds.

  Clients are told a context of `max_context + reserved` tokens, as far as the
  model has positions for what is not kept of it: a run needs all of its own.
  """
  max_len = min(max_context, model.config.max_positions)
  engine = Engine(
      model.config,
      weight_sync.engine_layout(model.params, DTYPES[dtype], model.base),
      model.tokenizer,
      EngineOptions(
          eos_ids=model.tokenizer.eos_ids,
          model_path=model.path,
          served_name=served_name,
          max_running=sampler.max_running,
          max_len=max_len,
          context_length=min(
              max_context + reserved, model.config.max_positions + RESERVED
          ),
          slots=sampler.num_slots,
          dtype=DTYPES[dtype],
          seed=seed,
          deterministic=sampler.deterministic,
          weight_version=version,
          keys=keys,
          chat_template=chat_template,
      ),
  )
  url = engine.start(host, port)
  stack.callback(engine.stop)
  return engine, url


def start_serving(
    stack: contextlib.ExitStack,
    loop: EventLoop,
    model: LanguageModel,
    *,
    sampler: sampler_lib.Sampler,
    max_context: int,
    dtype: str,
    seed: int,
    version: int,
    directory: pathlib.Path,
    chat_template: str | None,
) -> Serving:
  """Starts or finds who samples, from the model's parameters.

  Args:
    stack: ends what is started here.
    loop: runs coroutines.
    model: the policy.
    sampler: who samples.
    max_context: tokens of the longest request.
    dtype: of activations.
    seed: of the embedded engine.
    version: of the parameters.
    directory: the run's, for the logs of servers.
    chat_template: of the embedded engine's chats: the agent's, so that a chat
      with the policy reads as its episodes do.

  Raises:
    AgentrlError: servers do not start, or do not take the weights.
    Interrupted: the user asked to stop.
  """
  check_context(model.config, 'rollout.max_context', max_context)
  if sampler.kind == 'embedded':
    engine, url = start_engine(
        stack,
        model,
        sampler=sampler,
        max_context=max_context,
        dtype=dtype,
        seed=seed,
        version=str(version),
        chat_template=chat_template,
        reserved=RESERVED,
    )
    push = weight_sync.EmbeddedPush(
        engine, dtype=DTYPES[dtype], base=model.base
    )
    return Serving([url], Replicas([url]), push, model.config.vocab_size)
  if sampler.push_lora and distributed.count() > 1:
    # A push writes the base, which processes share, from the host's memory.
    keep = sampler.launch.python is not None or distributed.is_first()
    params = distributed.gather(model.base.params, keep=keep)
    model = dataclasses.replace(model, base=model.base.replace(params=params))
  start = _find
  if sampler.launch.python:
    start = functools.partial(_launch, directory=directory)
  needs = Needs(
      max_context=max_context,
      vocab_size=model.config.vocab_size,
      architecture=families.FAMILIES[model.config.family].architecture,
  )
  return start(
      stack,
      loop,
      model,
      sampler=sampler,
      needs=needs,
      dtype=dtype,
      version=version,
  )


def make_sampler(
    loop: EventLoop,
    serving: Serving,
    sampler: sampler_lib.Sampler,
    *,
    temperature: float,
) -> Sampler:
  """A client of these servers; all clients count requests together."""
  return Sampler(
      loop.session,
      serving.urls,
      temperature=temperature,
      timeout_s=sampler.timeout_s,
      max_attempts=sampler.max_attempts,
      api_key=serving.keys.api,
      admin_key=serving.keys.admin,
      replicas=serving.replicas,
      accepts=serving.accepts,
      adapter=serving.adapter,
      vocab_size=serving.vocab_size,
  )


def _find(stack, loop, model, *, sampler, needs, dtype, version) -> Serving:
  """Servers that somebody else started; they may hold any weights."""
  keys = remote.read_keys(sampler)
  options = dict(
      timeout_s=sampler.timeout_s, api_key=keys.api, admin_key=keys.admin
  )
  router = None
  if sampler.router:
    router = ControlClient(loop.session, [sampler.router], **options)

  if distributed.is_first():
    remote.look(sampler)

  async def find() -> tuple[ControlClient, list[dict[str, Any]]]:
    urls = await router.workers() if router else sampler.urls
    control = ControlClient(loop.session, urls, **options)
    # A run that was killed in the middle of a push left them paused.
    await control.wait_ready(sampler.timeout_s, resume=True)
    return control, await control.probe(needs)

  control, infos = ranks.same(lambda: loop.run(find()))
  urls = control.urls
  dtype = _file_dtype({info.get('dtype') for info in infos}, dtype)
  # All processes ask the same servers; one of them hands over the weights.
  push, run = None, _draw_name()
  if distributed.is_first():
    push = _make_push(stack, control, model, sampler, dtype, run, router=router)
  if distributed.count() > 1:
    push = _gathered(push, model, sampler, dtype, run)
  ranks.same(lambda: loop.run(push(model.params, version)))
  if router:
    arrive = lambda: router_check.check(
        router, vocab_size=needs.vocab_size, lora=sampler.push_lora
    )
    ranks.same(lambda: loop.run(arrive()))
  return _serving(
      urls,
      Replicas([sampler.router] if router else control.urls),
      push,
      needs.vocab_size,
      keys,
  )


def _launch(
    stack, loop, model, *, sampler, needs, dtype, version, directory
) -> Serving:
  """Servers of this run; they start from its weights."""
  launch = sampler.launch
  # Several processes have servers and a folder each.
  several = distributed.count() > 1
  prefix = f'{distributed.index()}-' if several else ''
  if several and sampler.push_dir:
    folder = pathlib.Path(sampler.push_dir) / f'process_{distributed.index()}'
    sampler = dataclasses.replace(sampler, push_dir=str(folder))
  # What a request of the full length needs, if that is more than the model has:
  # no token is ever there.
  context = needs.max_context + RESERVED
  flags = ['--dtype', dtype, '--context-length', str(context)]
  if sampler.push_lora:
    flags += ['--enable-lora', '--max-lora-rank', str(model.lora.rank)]
    modules = peft.modules(model.config, model.lora)
    flags += ['--lora-target-modules', *modules]
  servers = [
      sglang.Server(
          launch,
          port,
          directory / 'servers' / f'{prefix}{i}.log',
          flags=flags,
          devices=launch.devices[i] if launch.devices else None,
      )
      for i, port in enumerate(sglang.ports(launch))
  ]
  replicas = Replicas([server.url for server in servers])
  control = ControlClient(
      loop.session, replicas.urls, timeout_s=sampler.timeout_s
  )
  dtype = _file_dtype({launch.value_of('--dtype') or dtype}, dtype)
  run = _draw_name()
  own = _make_push(stack, control, model, sampler, dtype, run, watched=replicas)
  push, params = own, model.params
  if several:
    push = _gathered(own, model, sampler, dtype, run)
    params = push.gather(params)

  def start() -> None:
    own.start_from(own.write(params, version))
    fleet = sglang.Fleet(
        servers,
        launch,
        replicas,
        own,
        needs=needs,
        timeout_s=sampler.timeout_s,
    )
    stack.callback(fleet.stop)
    fleet.start()
    loop.run(fleet.started())
    if isinstance(own, AdapterPush):
      loop.run(own.ask_for_current())

  ranks.same(start)
  return _serving(replicas.urls, replicas, push, needs.vocab_size)


def _serving(
    urls: Sequence[str],
    replicas: Replicas,
    push: Any,
    vocab_size: int,
    keys: Keys = Keys(),  # noqa: B008  (frozen)
) -> Serving:
  adapter = None
  if isinstance(push, AdapterPush | GatheredAdapterPush):
    adapter = lambda: push.asked
  return Serving(urls, replicas, push, vocab_size, push.accepts, adapter, keys)


def _draw_name() -> str:
  """A name of this run, which is the same in all of its processes."""
  return distributed.share(uuid.uuid4().hex[:8].encode())[0].decode()


def _gathered(
    push: DiskPush | None,
    model: LanguageModel,
    sampler: sampler_lib.Sampler,
    dtype: str,
    run: str,
) -> weight_sync.GatheredPush:
  """The push of this process of several, or of one that does not push."""
  if sampler.push_lora:
    return GatheredAdapterPush(push, run)
  return weight_sync.GatheredPush(push, dtype=dtype, base=model.base)


def _make_push(
    stack: contextlib.ExitStack,
    control: ControlClient,
    model: LanguageModel,
    sampler: sampler_lib.Sampler,
    dtype: str,
    run: str,
    **who: Any,
) -> DiskPush:
  folder = _push_folder(stack, model, sampler, dtype)
  tokenizer_files = folder / 'tokenizer'
  model.tokenizer.save(tokenizer_files)
  # Of several processes all merge, before one of them pushes.
  base = model.base if distributed.count() == 1 else None
  kind = functools.partial(DiskPush, base=base)
  if sampler.push_lora:
    kind = functools.partial(
        AdapterPush, lora=model.lora, base=model.base, run=run
    )
  return kind(
      control,
      folder,
      model.config,
      mode=sampler.push,
      verify=sampler.verify,
      dtype=dtype,
      shard_bytes=sampler.shard_bytes,
      eos_ids=model.tokenizer.eos_ids,
      tokenizer_files=tokenizer_files,
      timeout_s=sampler.timeout_s,
      **who,
  )


def _push_folder(
    stack: contextlib.ExitStack,
    model: LanguageModel,
    sampler: sampler_lib.Sampler,
    dtype: str,
) -> pathlib.Path:
  """The folder that is named, or one in memory that goes with the run."""
  if sampler.push_dir:
    return pathlib.Path(sampler.push_dir)
  shm.remove_unused(_SHM)
  version_bytes = model.config.num_params * np.dtype(dtype).itemsize
  check_room(_SHM, 2 * version_bytes)
  return stack.enter_context(shm.folder(_SHM))


def _file_dtype(serve: set[Any], dtype: str) -> str:
  """What to write for servers that say they compute in `serve`.

  A server rounds what it reads, so files of its own type are the smallest that
  lose nothing.
  """
  known = {sampler_lib.SERVER_DTYPES.get(value) for value in serve}
  [found] = known if len(known) == 1 else [None]
  if found is None:  # 'auto', which follows the files
    return dtype
  if found != dtype:
    logging.warning(
        'The servers compute in %s, the trainer in %s: their log-probabilities'
        ' will differ. Start servers with --dtype %s, or set model.dtype.',
        *(found, dtype, dtype),
    )
  return found
