"""Transformers: `generate` anew on the whole history, and plain train steps.

Run by `peers.Peer` under an interpreter with torch and transformers; imports
nothing of agentrl. Reads the shape of the model, then tasks.
"""

import functools
import time

import peer_loop  # this folder's
import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
)

DEVICE = 'cuda' if torch.cuda.is_available() else 'cpu'


def make_model(shape):
  torch.manual_seed(0)
  # The families differ here in the biases of queries, keys and values alone.
  config_class, model_class = (
      (Qwen2Config, Qwen2ForCausalLM)
      if shape['qkv_bias']
      else (LlamaConfig, LlamaForCausalLM)
  )
  config = config_class(
      vocab_size=shape['vocab_size'],
      hidden_size=shape['hidden_size'],
      intermediate_size=shape['intermediate_size'],
      num_hidden_layers=shape['num_layers'],
      num_attention_heads=shape['num_heads'],
      num_key_value_heads=shape['num_kv_heads'],
      head_dim=shape['head_dim'],
      max_position_embeddings=shape['max_positions'],
      tie_word_embeddings=shape['tie_embeddings'],
  )
  model = model_class(config).float().eval().to(DEVICE)
  # Nothing ends a completion but its length.
  model.generation_config.eos_token_id = None
  model.generation_config.pad_token_id = 0
  return model


def play(model, *, batch, turns, observation, new, warm=False):
  """Seconds of each turn; all is read again in every one.

  Args:
    model: the policy.
    batch: rows.
    turns: each appends `observation` random and `new` sampled ids to each row.
    observation: ids.
    new: ids.
    warm: only a few ids of the first turn, not to be counted.
  """
  if warm:
    turns, new = 1, 4
  ids = torch.zeros(batch, 0, dtype=torch.long, device=DEVICE)
  vocab = model.config.vocab_size
  turn_s = []
  for _ in range(turns):
    seen = torch.randint(3, vocab, (batch, observation), device=DEVICE)
    ids = torch.cat([ids, seen], 1)
    start = time.perf_counter()
    with torch.inference_mode():
      ids = model.generate(
          input_ids=ids,
          attention_mask=torch.ones_like(ids),
          do_sample=True,
          temperature=1.0,
          top_k=0,
          max_new_tokens=new,
          min_new_tokens=new,
      )
    turn_s.append(time.perf_counter() - start)
  assert ids.shape[1] == turns * (observation + new)
  return {'turn_s': turn_s}


def train(model, *, rows, length, dtype, remat):
  """Seconds of one step: forward, backward, AdamW on the next-token loss.

  Args:
    model: its parameters are float32.
    rows: of a batch.
    length: tokens a row.
    dtype: of products.
    remat: whether layers are computed again in the backward pass.
  """
  if not hasattr(model, 'optimizer'):
    model.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
  ids = torch.randint(3, model.config.vocab_size, (rows, length), device=DEVICE)
  model.train()
  if remat:
    model.gradient_checkpointing_enable()
  mixed = torch.autocast(DEVICE, torch.bfloat16, enabled=dtype == 'bfloat16')
  start = time.perf_counter()
  model.optimizer.zero_grad(set_to_none=True)
  with mixed:
    loss = model(input_ids=ids, labels=ids).loss
  loss.backward()
  model.optimizer.step()
  if DEVICE == 'cuda':
    torch.cuda.synchronize()
  seconds = time.perf_counter() - start
  model.eval()
  return {'seconds': seconds}


def start(shape):
  model = make_model(shape)
  about = {
      'num_params': model.num_parameters(),
      'torch': torch.__version__,
      'threads': torch.get_num_threads(),
  }
  tasks = {'play': play, 'train': train}
  return about, {
      name: functools.partial(task, model) for name, task in tasks.items()
  }


if __name__ == '__main__':
  peer_loop.serve(start)
