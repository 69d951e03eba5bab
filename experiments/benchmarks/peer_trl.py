"""TRL: whole steps of its GRPO trainer.

Run by `peers.Peer` under an interpreter with torch, trl and peft; imports nothing of
agentrl. Reads the shape of the model, then tasks.
"""

import functools
import queue
import resource
import tempfile
import threading
import time

import numpy as np
import peer_loop  # this folder's
import peer_transformers
import peft
import tokenizers
import trl
from datasets import Dataset
from transformers import PreTrainedTokenizerFast, TrainerCallback


def make_tokenizer(vocab_size):
  """A tokenizer whose words are w0, w1, ..., after three special ones."""
  words = ['<pad>', '<s>', '</s>']
  words += [f'w{i}' for i in range(vocab_size - len(words))]
  backend = tokenizers.Tokenizer(
      tokenizers.models.WordLevel(
          {word: i for i, word in enumerate(words)}, unk_token='<pad>'
      )
  )
  backend.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
  return PreTrainedTokenizerFast(
      tokenizer_object=backend,
      pad_token='<pad>',
      bos_token='<s>',
      eos_token='</s>',
  )


class Held(TrainerCallback):
  """Holds the trainer before each step until it is let go."""

  def __init__(self):
    self.go, self.took = queue.Queue(), queue.Queue()
    self.began = 0.0

  def on_step_begin(self, *args, **kwargs):
    self.go.get()
    self.began = time.perf_counter()

  def on_step_end(self, *args, **kwargs):
    self.took.put(time.perf_counter() - self.began)


def make_adapter(rank):
  return peft.LoraConfig(
      r=rank,
      lora_alpha=16,
      target_modules=[
          'q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj',
          'down_proj',
      ],
      task_type='CAUSAL_LM',
  )  # fmt: skip


def make_trainer(model, held, *, prompts, group, prompt, new, lora_rank=0):
  vocab = model.config.vocab_size
  rng = np.random.default_rng(0)
  rows = rng.integers(0, vocab - 3, (256, prompt))
  data = Dataset.from_dict(
      {'prompt': [' '.join(f'w{i}' for i in row) for row in rows]}
  )
  return trl.GRPOTrainer(
      model=model,
      args=trl.GRPOConfig(
          output_dir=tempfile.mkdtemp(prefix='trl-'),
          use_cpu=True,
          bf16=False,
          gradient_checkpointing=False,  # faster, and it has the memory
          per_device_train_batch_size=prompts * group,
          num_generations=group,
          max_completion_length=new,
          max_steps=10**6,
          learning_rate=1e-5,
          beta=0.0,
          temperature=1.0,
          save_strategy='no',
          report_to=[],
          seed=0,
          disable_tqdm=True,
          generation_kwargs={'min_new_tokens': new},
      ),
      train_dataset=data,
      processing_class=make_tokenizer(vocab),
      peft_config=make_adapter(lora_rank) if lora_rank else None,
      callbacks=[held],
      reward_funcs=lambda completions, **kwargs: [
          len(set(c.split())) + 0.01 * i for i, c in enumerate(completions)
      ],
  )


def grpo(made, model, **sizes):
  """Seconds of one step: generation, reward, loss, gradient, AdamW.

  Args:
    made: the held trainer, once there is one.
    model: the policy.
    **sizes: prompts, group, prompt, new, lora_rank; see `make_trainer`.
  """
  if not made:
    made['held'] = Held()
    trainer = make_trainer(model, made['held'], **sizes)
    threading.Thread(target=trainer.train, daemon=True).start()
  made['held'].go.put(None)
  seconds = made['held'].took.get()
  peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
  return {'seconds': seconds, 'peak_gb': peak * 1024 / 1e9}


def start(shape):
  model = peer_transformers.make_model(shape)
  about = {'num_params': model.num_parameters(), 'trl': trl.__version__}
  return about, {'grpo': functools.partial(grpo, {}, model)}


if __name__ == '__main__':
  peer_loop.serve(start)
