"""The embedded inference engine: a model, its cache, and an HTTP server.

    engine = Engine(config, params, tokenizer, eos_ids=tokenizer.eos_ids, ...)
    url = engine.start('127.0.0.1')
    ...
    engine.update_params(new_params, version='7')
    engine.stop()

It speaks SGLang's native HTTP contract, so a sampler client cannot tell the two
apart; whoever shares the process may `submit` without HTTP.
"""

import asyncio
import concurrent.futures
import threading
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging
from aiohttp import web

from agentrl import weights
from agentrl.engine import protocol
from agentrl.engine.batcher import Batcher
from agentrl.engine.cache import SlotTable
from agentrl.engine.request import Request, Result
from agentrl.engine.runner import Runner
from agentrl.engine.scheduler import Scheduler
from agentrl.engine.server import Routes
from agentrl.errors import EngineError, WeightsError
from agentrl.models import transformer
from agentrl.models.transformer import Transformer, TransformerConfig
from agentrl.text.tokenizer import Tokenizer
from agentrl.weights import load as weights_load, names

_START_S = 30.0
