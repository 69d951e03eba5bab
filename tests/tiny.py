"""A learner that compiles in seconds, and random episodes for it."""

import contextlib
import dataclasses
import functools
import itertools
import threading

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.algos import grpo, online, policy
from agentrl.data import collate
from agentrl.engine.model_runner import ModelRunner
from agentrl.engine.options import EngineOptions
from agentrl.engine.request import RESERVED
from agentrl.engine.server import Engine
from agentrl.models import transformer, value_head
from agentrl.models.config import TransformerConfig
from agentrl.ops import logprob
from agentrl.parallel.mesh import make_mesh
from agentrl.serving.weight_sync import push as weight_sync
from agentrl.training import optim, programs as programs_lib, state as state_lib
from agentrl.training.policy_update import UpdatePlan
from agentrl.types import HORIZON, TERMINATED, Group, Segment
from agentrl.weights import names
from tests import fakes

CONFIG = TransformerConfig(
    vocab_size=32,
    hidden_size=16,
    intermediate_size=32,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    head_dim=4,
)
# All that sets Gemma 4 apart: the last two layers read keys of two others.
GEMMA4 = dict(
    family='gemma4_text',
    num_layers=6,
    layer_types=['sliding_attention', 'full_attention'] * 3,
    sliding_window=5,
    head_dim=8,
    full_head_dim=12,
    full_kv_heads=1,
    full_tied_values=True,
    kv_shared_layers=2,
    kv_shared_wide_mlp=True,
    value_norm=True,
    attention_multiplier=1.0,
    layer_inputs=6,
    layer_scalars=True,
    logits_softcap=5.0,
    rope_local_theta=100.0,
    rope_scaling=dict(kind='proportional', factor=1.0, rotated_part=0.5),
    qk_norm='head',
    post_norms=True,
    scale_embeddings=True,
    hidden_act='gelu_pytorch_tanh',
)
# What sets Gemma 3 and a mixture of experts apart, beside their layers' types.
GEMMA = dict(
    qk_norm=True,
    post_norms=True,
    norm_offset=1.0,
    scale_embeddings=True,
    hidden_act='gelu_pytorch_tanh',
)
LINEAR = dict(
    linear_kernel=4,
    linear_key_heads=2,
    linear_value_heads=4,
    linear_key_dim=6,
    linear_value_dim=8,
)
EXPERTS = dict(num_experts=4, num_experts_per_token=2, moe_intermediate_size=8)
# Layers of two kinds, experts, and an MLP beside them.
QWEN3_NEXT = dict(
    family='qwen3_next',
    num_layers=4,
    layer_types=['linear_attention', 'full_attention'] * 2,
    attention_gate=True,
    qk_norm='head',
    norm_offset=1.0,
    head_dim=8,
    partial_rotary_factor=0.25,
    norm_topk_prob=True,
    shared_expert_size=12,
    **LINEAR,
    **EXPERTS,
)
# `max_tokens` of microbatches of one packed row, the shape that all tests share.
ROW = 64
MODULE = transformer.Transformer(CONFIG, scan_layers=True)


def one_device():
  return make_mesh(
      dict(data=1, fsdp=1, tensor=1, sequence=1), jax.devices()[:1]
  )


@functools.cache
def init_params(seed=0):
  """Host arrays, which no train step can donate."""
  init = jax.jit(lambda key: transformer.init_params(MODULE, key))
  params = init(jax.random.key(seed))
  return jax.tree.map(np.asarray, params)


def random_params(config, seed=0):
  """Host arrays in the trainer's layout, made without compiling anything."""
  rng = np.random.default_rng(seed)

  def draw(path, leaf):
    centre = 1.0 if path[-1].key == 'scale' else 0.0
    return rng.normal(centre, 0.1, leaf.shape).astype(np.float32)

  return jax.tree_util.tree_map_with_path(
      draw, names.shapes(config, np.float32)
  )


def stack_layers(params, config):
  """The trainer's layout of engine parameters, the other way round."""
  turned = jax.tree_util.tree_map_with_path(
      lambda path, x: jnp.swapaxes(x, -1, -2)
      if path[-1].key in ('kernel', 'lm_head')
      else jnp.copy(x),
      params,
  )
  for run in config.runs:
    layers = [turned.pop(f'layers_{i}') for i in range(run.first, run.stop)]
    places = [
        jax.tree.map(lambda *xs: jnp.stack(xs), *layers[i :: run.period])
        for i in range(run.period)
    ]
    for i, place in enumerate(places):
      name, *rest = run.path(i)
      if rest:
        turned.setdefault(name, {})[rest[0]] = place
      else:
        turned[name] = place
  return turned


def version_params(version):
  """Different for each version, far from flat."""
  return jax.tree.map(lambda x: 4 * x + 0.1 * version, init_params())


@functools.partial(jax.jit, static_argnums=0)
def run_decoder(
    module, params, tokens, positions, segment_ids=None, cache=None
):
  """Logits `[B, T, V]` and the cache."""
  hidden, cache, _ = module.apply(
      {'params': params}, tokens, positions, segment_ids, cache
  )
  return module.apply({'params': params}, hidden, method='unembed'), cache


@contextlib.contextmanager
def serving(params, config=CONFIG, *, tokenizer=None, port=0, **settings):
  """An engine with trainer parameters, on loopback; gives its URL."""
  settings = dict(max_running=4, max_len=256, slots=8) | settings
  # For runs whose max_context is `max_len`.
  settings.setdefault('context_length', settings['max_len'] + RESERVED)
  engine = Engine(
      config,
      weight_sync.engine_layout(params),
      tokenizer,
      EngineOptions(
          eos_ids=(),
          model_path='random',
          **settings,
      ),
  )
  try:
    yield engine.start(port=port)
  finally:
    engine.stop()


def slow_decode(monkeypatch):
  """Makes a completion last long enough to do something meanwhile.

  A dispatch of up to 8 tokens takes 0.1 s more, so 120 tokens 1.5 s, however
  late the test gets the processor. Setting the event that this gives ends it.
  """
  fast, decode = threading.Event(), ModelRunner.decode

  def slow(*args, **kwargs):
    fast.wait(0.1)
    return decode(*args, **kwargs)

  monkeypatch.setattr(ModelRunner, 'decode', slow)
  return fast


# Adam divides by the size of a gradient: a large eps keeps the rounding of
# gradients near zero from becoming an update of full size.
OPTIMIZER = dict(lr=1e-2, warmup_steps=3, eps=1e-3)


@functools.cache
def bound(module=grpo, **hyperparams):
  """An algorithm's loss, its hyperparameters bound; one for equal arguments."""
  return functools.partial(
      module.loss, hyperparams=module.Hyperparams(**hyperparams)
  )


def plan(
    module=grpo,
    *,
    max_tokens=ROW,
    seed=0,
    max_context=40,
    simulated_s=None,
    **hyperparams,
):
  """The use of a collection by an algorithm with these hyperparameters."""
  return UpdatePlan(
      module.Hyperparams(**hyperparams),
      max_tokens,
      seed,
      max_context,
      simulated_s=simulated_s,
  )


def optimizer(critic=None):
  """Of a policy, and of its critic if there is one."""
  tx = optim.make_optimizer(**OPTIMIZER)
  if critic is None:
    return tx
  return optim.with_critic(tx, optim.make_optimizer(**OPTIMIZER))


def make_learner(
    loss=None, *, mesh=None, temperature=1.0, critic=None, learns_prompts=False
):
  """A new state, and the pieces that update it, compiled when first used.

  Args:
    loss: None: GRPO's.
    mesh: None: one device.
    temperature: of the sampler.
    critic: a kind of models.value_head.
    learns_prompts: see `programs.compile_programs`.
  """
  mesh = mesh or one_device()
  tx = optimizer(critic)
  params = init_params()
  if critic is not None:
    critic = value_head.init(critic, MODULE, params)
  state = state_lib.create(params, tx, mesh, critic=critic)
  programs = programs_lib.compile_programs(
      MODULE,
      loss or bound(),
      tx,
      state,
      temperature=temperature,
      keep_entropy=True,
      learns_prompts=learns_prompts,
  )
  return state, programs


_cached_learner = functools.cache(make_learner)


def new_state():
  """A state of one's own, to be donated."""
  return jax.tree.map(jnp.copy, _cached_learner()[0])


def programs(loss=None, temperature=1.0, learns_prompts=False):
  """The compiled pieces on one device, shared by all tests."""
  options = dict(temperature=temperature, learns_prompts=learns_prompts)
  if (loss or bound(), *options.values()) == (bound(), 1.0, False):
    return _cached_learner()[1]
  return _cached_learner(loss, **options)[1]


def random_episode(rng, *, turns=2, valid=True, reward=None, **fields):
  """Sampled and inserted spans of random lengths; ends with an observation."""
  tokens, mask, records = [], [], []

  def append(count, sampled):
    tokens.extend(rng.integers(CONFIG.vocab_size, size=count).tolist())
    mask.extend([sampled] * count)

  append(rng.integers(2, 9), False)
  for turn in range(turns):
    count = int(rng.integers(1, 6))
    append(count, True)
    terminated = turn == turns - 1 and fields.get('stop_reason') == TERMINATED
    if not terminated:
      append(rng.integers(1, 6), False)
    value = float(rng.normal()) if reward is None else reward
    records.append(fakes.make_turn(value, completion_tokens=count))
  logprobs = np.where(mask, -rng.exponential(size=len(mask)), 0.0)
  fields = {'stop_reason': HORIZON, **fields}
  if not valid:
    fields |= {'stop_reason': 'env_error', 'error': 'down'}
  return fakes.make_episode(
      turns=tuple(records),
      tokens=tuple(tokens),
      completion_mask=tuple(mask),
      sampler_logprobs=tuple(logprobs.tolist()),
      **fields,
  )


def random_groups(seed, *, num_groups=2, group_size=4, failures=0.0):
  """Groups of episodes of one to three turns, some failed."""
  rng = np.random.default_rng(seed)
  return [
      Group(
          task_id=task,
          ordinal=task,
          episodes=tuple(
              random_episode(
                  rng,
                  turns=int(rng.integers(1, 4)),
                  valid=rng.random() >= failures,
              )
              for _ in range(group_size)
          ),
      )
      for task in range(num_groups)
  ]


def tied_and_not():
  """A group of equal returns, then one of different ones."""
  rng = np.random.default_rng(11)

  def group(ordinal, rewards):
    return Group(
        ordinal,
        ordinal,
        tuple(
            random_episode(rng, turns=2, reward=r, task_id=ordinal)
            for r in rewards
        ),
    )

  return [group(0, (1.0,) * 4), group(1, (1.0, 0.0, 0.0, 0.0))]


def without_openings(group):
  """The same episodes from their first sampled tokens on."""

  def cut(episode):
    start = episode.completion_mask.index(True)
    names = ('tokens', 'completion_mask', 'sampler_logprobs')
    kept = {name: getattr(episode, name)[start:] for name in names}
    return dataclasses.replace(episode, **kept)

  return dataclasses.replace(group, episodes=tuple(map(cut, group.episodes)))


def with_prompt(group, prompt):
  """The same episodes, after tokens that all their segments begin with."""
  opening = Segment(
      tuple(np.asarray(prompt).tolist()),
      (False,) * len(prompt),
      (0.0,) * len(prompt),
  )
  episodes = tuple(
      of_segments(episode, [(opening, part) for part in episode.segments])
      for episode in group.episodes
  )
  return dataclasses.replace(group, episodes=episodes)


def of_segments(episode, segments):
  """The episode with these segments, each a sequence of parts."""
  parts = [part for segment in segments for part in segment]
  starts, count = [], 0
  for segment in segments:
    starts.append(count)
    count += sum(len(part.tokens) for part in segment)
  return dataclasses.replace(
      episode,
      tokens=sum((part.tokens for part in parts), ()),
      completion_mask=sum((part.completion_mask for part in parts), ()),
      sampler_logprobs=sum((part.sampler_logprobs for part in parts), ()),
      segment_starts=tuple(starts),
  )


def with_segments(group, rng, chance=0.5):
  """The same turns; before some of them a segment begins, with its opening."""

  def split(episode):
    whole = Segment(
        episode.tokens, episode.completion_mask, episode.sampler_logprobs
    )
    cuts = [start for start, _ in episode.sampled_runs[1:]]
    cuts = [cut for cut in cuts if rng.random() < chance]
    segments = []
    for start, stop in itertools.pairwise((0, *cuts, len(episode.tokens))):
      part = Segment(*(x[start:stop] for x in dataclasses.astuple(whole)))
      ids = rng.integers(CONFIG.vocab_size, size=int(rng.integers(1, 6)))
      opening = Segment(
          tuple(ids.tolist()), (False,) * len(ids), (0.0,) * len(ids)
      )
      segments.append((opening, part) if start else (part,))
    return of_segments(episode, segments)

  return dataclasses.replace(group, episodes=tuple(map(split, group.episodes)))


def windowed_episode(
    seed, *, turns, window, opening=400, sampled=60, observed=30
):
  """An episode whose segments hold the last `window` turns and the next."""
  rng = np.random.default_rng(seed)
  draw = lambda n: tuple(rng.integers(CONFIG.vocab_size, size=n).tolist())
  context = lambda ids: Segment(ids, (False,) * len(ids), (0.0,) * len(ids))
  chosen = lambda ids: Segment(ids, (True,) * len(ids), (-1.0,) * len(ids))
  prompt = tuple(range(16)) * (opening // 16)  # of every episode of the task
  said = [(draw(sampled), draw(observed)) for _ in range(turns)]
  segments = []
  for turn, (ids, observation) in enumerate(said):
    end = [chosen(ids), context(observation)]
    if turn <= window:  # they all fit
      segments[:] = [(*(segments or [[context(prompt)]])[0], *end)]
      continue
    seen = sum((a + b for a, b in said[turn - window : turn]), ())
    segments.append((context(prompt + seen), *end))
  records = tuple(
      fakes.make_turn(float(rng.normal()), completion_tokens=sampled)
      for _ in said
  )
  like = fakes.make_episode((), turns=records, tokens=(), completion_mask=(),
                            sampler_logprobs=(), stop_reason=HORIZON)  # fmt: skip
  return of_segments(like, segments)


def with_longer_observations(group, rng):
  """The same episodes with ids inserted wherever nothing was sampled."""

  def longer(episode):
    ids = []
    for i, item in enumerate(
        zip(
            episode.tokens,
            episode.completion_mask,
            episode.sampler_logprobs,
            strict=True,
        )
    ):
      ids.append(item)
      if not item[1]:  # more of the observation that it belongs to
        extra = rng.integers(CONFIG.vocab_size, size=i % 3).tolist()
        ids += [(token, False, 0.0) for token in extra]
    tokens, mask, logprobs = zip(*ids, strict=True)
    return dataclasses.replace(
        episode, tokens=tokens, completion_mask=mask, sampler_logprobs=logprobs
    )

  return dataclasses.replace(group, episodes=tuple(map(longer, group.episodes)))


# For programs that run a few times: they take longer to compile than to run.
_quick_jit = functools.partial(
    jax.jit, compiler_options={'xla_backend_optimization_level': 0}
)


@functools.partial(_quick_jit, static_argnames=('hyperparams', 'num_groups'))
def _advantages(batch, hyperparams, num_groups):
  return online.bind_advantages(hyperparams)(batch, num_groups=num_groups)


def advantages(module, batch, **hyperparams):
  """The batch with an algorithm's advantages, as host arrays."""
  chosen = module.Hyperparams(**hyperparams)
  num_groups = int(np.max(batch.group_ids)) + 1
  return jax.tree.map(np.asarray, _advantages(batch, chosen, num_groups))


def pad(batch, height, width):
  """`[B, T]` fields with more rows and columns, of no episode."""

  def padded(name, x):
    if x is None or x.ndim != 2:
      return x
    extra = ((0, height - x.shape[0]), (0, width - x.shape[1]))
    rest = -1 if name in ('turn_ids', 'anchor_ids') else 0
    return np.pad(x, extra, constant_values=rest)

  fields = batch.__dataclass_fields__
  return batch.replace(**{f: padded(f, getattr(batch, f)) for f in fields})


def make_batch(groups, width=ROW):
  """Collated groups with GRPO's advantages, padded so that shapes repeat."""
  batch = collate.collate(groups)
  return advantages(grpo, pad(batch, len(batch.tokens), width))


def denominators(batch, *, kl_coef=0.0):
  """The denominators of a whole batch."""
  return programs_lib.denominators(
      batch, np.arange(len(batch.valid)), kl_coef=kl_coef
  )


def random_batch(seed, **groups):
  """A batch of random groups."""
  return make_batch(random_groups(seed, **groups))


def random_logits(batch, seed):
  """`[B, T, V]` for a batch's tokens."""
  shape = (*batch.tokens.shape, CONFIG.vocab_size)
  rng = np.random.default_rng(seed)
  return jnp.asarray(rng.normal(size=shape), jnp.float32)


def _score_of(logits, tokens, positions):
  return logprob.from_hidden(logits, lambda x: x, tokens, positions)


_score = _quick_jit(_score_of)


@_quick_jit
def _score_backwards(logits, tokens, positions, cotangents):
  score = lambda x: _score_of(x, tokens, positions)
  return jax.vjp(score, logits)[1](cotangents)[0]


@functools.partial(_quick_jit, static_argnames='loss')
def outputs_grad(loss, outputs, batch, denominators):
  """`(loss, metrics), gradient` of a bound loss in the networks' outputs."""
  return jax.value_and_grad(loss, has_aux=True)(outputs, batch, denominators)


def logprobs_of(logits, batch):
  """`[B, T]` log-probabilities, each at its token's index."""
  return _score(logits, batch.tokens, batch.positions)[0]


def value_and_grad(loss, batch, logits, denominators, values=None):
  """`(loss, metrics), gradient` of a bound loss.

  The gradient is with respect to the logits, or `(logits, values)` if the
  critic's `[B, T]` values are given. The chain rule is applied here, so that
  losses share the program of what they are composed with.
  """
  layout = (batch.tokens, batch.positions)
  outputs = policy.Outputs(*_score(logits, *layout), values)
  result, grad = outputs_grad(loss, outputs, batch, denominators)
  pulled = _score_backwards(logits, *layout, (grad.logprobs, grad.entropy))
  return result, pulled if values is None else (pulled, grad.values)


def assert_trees_close(actual, expected, *, rtol=1e-4, atol=1e-6):
  jax.tree.map(
      lambda a, b: np.testing.assert_allclose(a, b, rtol=rtol, atol=atol),
      actual,
      expected,
  )


def assert_trees_equal(actual, expected):
  jax.tree.map(np.testing.assert_array_equal, actual, expected)
