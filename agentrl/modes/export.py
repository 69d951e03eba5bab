"""mode='export': a checkpoint as a Hugging Face folder, verified."""

import dataclasses
import json
import os
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import rich.console
from ml_collections import ConfigDict

from agentrl.errors import ConfigError, WeightsError
from agentrl.evaluation.chance import level as level_lib, store
from agentrl.models import options
from agentrl.models.config import TransformerConfig
from agentrl.modes import reading, source
from agentrl.parallel import compile_cache, ranks
from agentrl.runtime import workdir as workdir_lib
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.text.chat import ChatFormat
from agentrl.text.tokenizer import Tokenizer
from agentrl.training import language_model
from agentrl.training.language_model import (
    DTYPES,
    LanguageModel,
    RunAdapter,
)
from agentrl.weights import hf, model_card, peft, pretrained, verify

# Words, blanks, digits, other scripts, what JSON and code need, a control token.
_SAMPLE = (
    'Go to the red ball 2 steps left.\n\n\tdef f(x): return {"a": [1, 23]}'
    '  Ünïcödé 日本語 🙂 <|im_end|> </s>'
)


def run(config: ConfigDict, workdir: str | None) -> None:
  """Writes the checkpoint that `config` names into `workdir`, the folder."""
  config = reading.read(config)
  compile_cache.use(config.compile_cache)
  ranks.join(os.environ, config.mode, ready=False)
  ranks.check_devices()
  run_dir, number = source.find(config.checkpoint)
  directory = workdir_lib.make(workdir)
  if any(directory.iterdir()):  # before a large model is read
    raise ConfigError(f'{directory} is not empty; name another --workdir.')
  # On the host, where a model fits that was trained on many accelerators.
  cpu = jax.devices('cpu')[0]
  if config.export.adapter:
    adapter = language_model.load_run_adapter(run_dir, number, cpu)
    _export_adapter(directory, run_dir, adapter, config.export.dtype)
    return
  model, host = language_model.load_checkpoint(run_dir, number, device=cpu)
  run_config = workdir_lib.read_record(run_dir / workdir_lib.CONFIG)
  # Whoever loads the folder asks the policy as it was asked, and stops there.
  template = run_config['agent'].get('template')
  chat = ChatFormat(model.tokenizer, template)
  tokenizer = model.tokenizer.talking(chat.source, chat.stop_ids)
  model = dataclasses.replace(model, tokenizer=tokenizer)
  dtype = config.export.dtype
  if dtype == 'source':
    dtype = source_dtype(run_config['model']['name'])
  write(
      directory,
      model,
      dtype=dtype,
      shard_bytes=config.export.shard_bytes,
      card=_card(run_dir, run_config, host, model.config, dtype=dtype),
      trained=model_card.trained_with(run_config),
  )
  rich.console.Console().print(
      f'Checkpoint {host["books"]["step"]} of {run_dir} is in {directory}:'
      f' {model.config.num_params:,} parameters in {dtype}, read again and'
      ' equal',
      highlight=False,
  )


def _export_adapter(
    directory: pathlib.Path,
    run_dir: pathlib.Path,
    adapter: RunAdapter,
    dtype: str,
) -> None:
  """Writes an adapter, its card and how its policy is asked."""
  run_config = workdir_lib.read_record(run_dir / workdir_lib.CONFIG)
  host, record = adapter.host, adapter.record
  card = _card(
      *(run_dir, run_config, host, adapter.config),
      dtype=dtype,
      adapter_of=record['base'],
  )
  known = {key: record[key] for key in ('base', 'dtype', 'fingerprint')}
  trained = model_card.trained_with(run_config) | {'adapter': known}
  peft.save_adapter(
      directory,
      adapter.config,
      adapter.params,
      adapter.lora,
      base=record['base'],
      dtype=np.dtype(DTYPES[dtype]),
      companions=_texts(card, trained),
  )
  size = sum(x.size for x in jax.tree.leaves(adapter.params))
  rich.console.Console().print(
      f'The adapter of checkpoint {host["books"]["step"]} of {run_dir} is in'
      f' {directory}: {size:,} parameters in {dtype}, to be added to'
      f' {record["base"]}',
      highlight=False,
  )


def _card(
    run_dir: pathlib.Path,
    run_config: dict[str, Any],
    host: dict[str, Any],
    shape: TransformerConfig,
    **others: Any,
) -> str:
  """The text of a model card with what the run's evaluations found."""
  found = model_card.evaluations(run_dir, host, run_config['mode'])
  name = run_dir.absolute().name
  levels = {
      entry.replace(level.kind, level_lib.NAMES[level.kind], 1): summary
      for entry, level in store.read_levels(run_dir).items()
      if (summary := level_lib.summarise(level)) and summary['mean'] is not None
  }
  return model_card.make(
      name, run_config, found, host, shape, chance=levels, **others
  )


def source_dtype(name: str) -> str:
  """The type of the weights that a run called `name` as its model started from.

  Raises:
    ConfigError: they were quantised.
  """
  if name in options.TINY:
    return 'float32'  # random numbers, drawn so
  earlier = workdir_lib.run_of(name)
  if earlier is not None:  # it went on from another run
    config = workdir_lib.read_record(earlier[0] / workdir_lib.CONFIG)
    return source_dtype(config['model']['name'])
  try:
    path = pretrained.resolve(name)
  except WeightsError as error:
    raise ConfigError(
        f"export.dtype='source' is the type of {name}, which the run started"
        " from and which is not here: set export.dtype='float32' or 'bfloat16'."
    ) from error
  if path.is_dir():
    return hf.stored_dtype(path)
  raise ConfigError(
      f"export.dtype='source': {name} was quantised, and safetensors are not;"
      " use 'float32' or 'bfloat16'."
  )


def write(
    directory: str | pathlib.Path,
    model: LanguageModel,
    *,
    dtype: str,
    shard_bytes: int = hf.SHARD_BYTES,
    card: str,
    trained: dict[str, Any],
) -> None:
  """A policy as a folder that transformers and SGLang load.

  Args:
    directory: must be new or empty; the folder appears in it as a whole.
    model: the policy, with everything that was learnt in `params`.
    dtype: of the files.
    shard_bytes: most bytes of one file.
    card: the text of README.md.
    trained: the sections of agentrl.json, see `model_card.trained_with`.

  Raises:
    WeightsError: the directory has content, the disk refuses, or what was read
      again differs. Nothing is left behind.
  """
  kind = np.dtype(DTYPES[dtype])

  def check(folder: pathlib.Path) -> None:
    verify.check(folder, model.config, model.params, kind)
    _check_tokenizer(folder, model.tokenizer)

  hf.save(
      directory,
      model.config,
      model.params,
      dtype=kind,
      shard_bytes=shard_bytes,
      eos_ids=model.tokenizer.eos_ids,
      companions=(
          model.tokenizer.save,
          *_texts(card, trained),
      ),
      checks=(check,),
  )


def _texts(
    card: str, trained: dict[str, Any]
) -> tuple[Callable[[pathlib.Path], None], ...]:
  """Writers of README.md and agentrl.json."""
  told = json.dumps(trained, indent=2) + '\n'
  return (
      lambda folder: _write_text(folder / 'README.md', card),
      lambda folder: _write_text(folder / workdir_lib.EXPORTED, told),
  )


def _write_text(path: pathlib.Path, text: str) -> None:
  path.write_text(text, encoding='utf-8')


def _check_tokenizer(directory: pathlib.Path, expected: Tokenizer) -> None:
  tokenizer = tokenizer_lib.load(directory)
  if _describe(tokenizer) != _describe(expected):
    raise WeightsError(
        f'{directory} gives another tokenizer back than was written; nothing'
        ' was exported.'
    )


def _describe(tokenizer: Tokenizer) -> dict[str, Any]:
  """The behaviour by which two tokenizers are compared."""
  return dict(
      plain=tokenizer.encode(_SAMPLE),
      special=tokenizer.encode(_SAMPLE, allow_special=True),
      vocab_size=tokenizer.vocab_size,
      control_ids=tokenizer.control_ids,
      eos_ids=tokenizer.eos_ids,
      named=tokenizer.special_tokens(),
      chat_template=tokenizer.chat_template,
  )
