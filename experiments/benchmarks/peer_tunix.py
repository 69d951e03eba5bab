"""Tunix: its sampler, which takes strings and keeps no cache, and its GRPO.

Run by `peers.Peer` under an interpreter with google-tunix; imports nothing
of agentrl. Reads the shape of the model, then tasks.
"""

import functools
import queue
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax
import peer_loop  # this folder's
from flax import nnx
from tunix.generate import sampler as sampler_lib
from tunix.models.llama3 import model as llama
from tunix.rl import rl_cluster
from tunix.rl.grpo import grpo_learner
from tunix.rl.rollout import base_rollout


class Words:
  """A tokenizer whose words are w0, w1, ...: ids go in and out unchanged."""

  def encode(self, text, **kwargs):
    return [int(word[1:]) for word in text.split()]

  def decode(self, ids, **kwargs):
    return text_of(ids)

  def bos_id(self):
    return None  # or it would begin every prompt, and make 64 tokens 65

  def eos_id(self):
    return 2

  def pad_id(self):
    return 0


def text_of(ids):
  return ' '.join(f'w{int(i)}' for i in ids)


def make_model(shape):
  return llama.Llama3(
      llama.ModelConfig(
          num_layers=shape['num_layers'],
          vocab_size=shape['vocab_size'],
          embed_dim=shape['hidden_size'],
          hidden_dim=shape['intermediate_size'],
          num_heads=shape['num_heads'],
          head_dim=shape['head_dim'],
          num_kv_heads=shape['num_kv_heads'],
          rope_theta=int(shape['rope_theta']),
          norm_eps=shape['rms_norm_eps'],
          weight_tying=shape['tie_embeddings'],
      ),
      rngs=nnx.Rngs(0),
  )


def bucket(size):
  """The length that tunix pads a prompt to: a power of two."""
  return 1 << (size - 1).bit_length()


def play(samplers, model, shape, *, batch, turns, observation, new, warm=False):
  """Seconds of each turn; all is read again in every one.

  Args:
    samplers: those made so far, by cache length.
    model: the policy.
    shape: its shape.
    batch: rows.
    turns: each appends `observation` random and `new` sampled ids to each row.
    observation: ids.
    new: ids.
    warm: for its compilation, and not to be counted; the same.
  """
  del warm
  longest = turns * (observation + new)
  # About the smallest cache that works, as all of it is read in each step.
  size = 64 * ((bucket(longest - new) + new) // 64 + 1)
  if size not in samplers:
    samplers[size] = sampler_lib.Sampler(
        model,
        Words(),
        sampler_lib.CacheConfig(
            cache_size=size,
            num_layers=shape['num_layers'],
            num_kv_heads=shape['num_kv_heads'],
            head_dim=shape['head_dim'],
        ),
    )
  vocab = shape['vocab_size']
  rng = np.random.default_rng()
  rows = [[] for _ in range(batch)]
  turn_s = []
  for turn in range(turns):
    rows = [[*row, *rng.integers(3, vocab, observation)] for row in rows]
    start = time.perf_counter()
    output = samplers[size](
        [text_of(row) for row in rows],
        max_generation_steps=new,
        temperature=1.0,
        top_p=1.0,
        eos_tokens=[vocab + 7],  # never sampled
        seed=turn,
    )
    rows = [
        [*row, *map(int, ids)]
        for row, ids in zip(rows, output.tokens, strict=True)
    ]
    turn_s.append(time.perf_counter() - start)
  # It takes a sampled 0 for padding, and drops it.
  assert all(len(row) > 0.98 * longest for row in rows)
  return {'turn_s': turn_s}


def make_learner(shape, reward, *, prompts, group, prompt, new):
  """Its GRPO learner, and the mesh that it needs as a context."""
  mesh = jax.sharding.Mesh(
      np.array(jax.devices()[:1]).reshape(1, 1), ('fsdp', 'tp')
  )
  role = rl_cluster.Role
  cluster = rl_cluster.RLCluster(
      actor=make_model(shape),
      reference=None,
      tokenizer=Words(),
      cluster_config=rl_cluster.ClusterConfig(
          role_to_mesh={
              role.ACTOR: mesh,
              role.REFERENCE: mesh,
              role.ROLLOUT: mesh,
          },
          rollout_engine='vanilla',
          offload_to_cpu=False,
          training_config=rl_cluster.RLTrainingConfig(
              actor_optimizer=optax.adamw(1e-5),
              eval_every_n_steps=10**6,
              max_steps=10**6,
              mini_batch_size=prompts,
              train_micro_batch_size=prompts,
          ),
          rollout_config=base_rollout.RolloutConfig(
              max_tokens_to_generate=new,
              max_prompt_length=prompt,
              kv_cache_size=prompt + new + 64,
              temperature=1.0,
              top_p=1.0,
              eos_tokens=[shape['vocab_size'] + 7],  # never sampled
          ),
      ),
  )
  learner = grpo_learner.GRPOLearner(
      rl_cluster=cluster,
      reward_fns=reward,
      algo_config=grpo_learner.GRPOConfig(
          num_generations=group, num_iterations=1, beta=0.0, epsilon=0.2
      ),
  )
  return learner, mesh


def train(made, shape, *, rows, length, prompt=64):
  """Seconds of its train step: GRPO's loss, gradient, AdamW.

  Args:
    made: its jitted step and mesh, once there are any.
    shape: of the model.
    rows: of the batch.
    length: of a row, `prompt` of which are not learnt from.
    prompt: tokens.
  """
  new = length - prompt
  if 'train' not in made:
    learner, mesh = make_learner(
        shape, lambda **_: [], prompts=2, group=8, prompt=prompt, new=new
    )
    with mesh:
      step, _ = learner.rl_cluster.actor_trainer.jit_train_and_eval_step()
    made['train'] = step, mesh, learner
  step, mesh, _ = made['train']
  rng = np.random.default_rng()
  draw = lambda size: jnp.array(rng.integers(3, shape['vocab_size'], size))
  example = grpo_learner.TrainExample(
      prompt_ids=draw((rows, prompt)),
      prompt_mask=jnp.ones((rows, prompt), bool),
      completion_ids=draw((rows, new)),
      completion_mask=jnp.ones((rows, new), bool),
      advantages=jnp.array(rng.normal(size=rows), jnp.float32),
      ref_per_token_logps=None,
      old_per_token_logps=None,
  )
  start = time.perf_counter()
  with mesh:
    jax.block_until_ready(step(example)[2])
  return {'seconds': time.perf_counter() - start}


def grpo(made, shape, *, prompts, group, prompt, new):
  """Seconds from one call of the reward function to the next.

  It is held there until the next task, so nothing is computed meanwhile.

  Args:
    made: its held training thread, once there is one.
    shape: of the model.
    prompts: tasks of a step.
    group: completions of each.
    prompt: tokens of it.
    new: tokens of a completion.
  """
  if 'grpo' not in made:
    go, reached = queue.Queue(), queue.Queue()

    def reward(completions, **kwargs):
      reached.put(time.perf_counter())
      go.get()
      return [len(set(c.split())) + 0.01 * i for i, c in enumerate(completions)]

    sizes = dict(prompts=prompts, group=group, prompt=prompt, new=new)
    learner, mesh = make_learner(shape, reward, **sizes)
    rng = np.random.default_rng(0)

    def batches():
      while True:
        ids = rng.integers(3, shape['vocab_size'], (prompts, prompt))
        yield {'prompts': np.array([text_of(row) for row in ids])}

    def learn():
      with mesh:
        learner.train(batches())

    threading.Thread(target=learn, daemon=True).start()
    reached.get()
    made['grpo'] = go, reached
  go, reached = made['grpo']
  start = time.perf_counter()
  go.put(None)
  return {'seconds': reached.get() - start}


def start(shape):
  model = make_model(shape)
  leaves = jax.tree.leaves(nnx.state(model, nnx.Param))
  about = {'num_params': sum(x.size for x in leaves), 'jax': jax.__version__}
  return about, {
      'play': functools.partial(play, {}, model, shape),
      'train': functools.partial(train, {}, shape),
      'grpo': functools.partial(grpo, {}, shape),
  }


if __name__ == '__main__':
  peer_loop.serve(start)
