"""The teacher of a distillation: an engine of the run, or servers elsewhere."""

import contextlib
from collections.abc import Callable, Sequence

from agentrl.algos.hyperparams import Teacher as TeacherOptions
from agentrl.errors import ConfigError
from agentrl.http import auth
from agentrl.inference.compatibility import RESERVED
from agentrl.inference.sampler import Sampler
from agentrl.models.options import TrainModel
from agentrl.rollout.teacher import Teacher
from agentrl.runtime.event_loop import EventLoop
from agentrl.serving import start
from agentrl.serving.options import EmbeddedOptions
from agentrl.text.tokenizer import Tokenizer
from agentrl.training import language_model
from agentrl.training.language_model import DTYPES
from agentrl.types import Message


def model(options: TeacherOptions, student: TrainModel) -> str:
  """The name of the model of a teacher that the run serves.

  Raises:
    ConfigError: it is the student's own start, which is random.
  """
  if options.model is None and student.from_scratch:
    raise ConfigError(
        f'The policy {student.name} starts random, so that it cannot teach'
        ' itself: set algo.teacher.model, or algo.teacher.urls.'
    )
  return options.model or student.name


def start_teacher(
    stack: contextlib.ExitStack,
    loop: EventLoop,
    options: TeacherOptions,
    policy: TrainModel,
    student: Tokenizer,
    *,
    dtype: str,
    max_context: int,
    timeout_s: float,
    deterministic: bool,
    prompt_ids: Callable[[Sequence[Message]], list[int]],
) -> Teacher:
  """Starts or finds the teacher of a student.

  Args:
    stack: ends what is started here.
    loop: runs coroutines.
    options: name the teacher.
    policy: the student, as the config names it.
    student: the student's tokenizer.
    dtype: of an engine's activations, and of its weights.
    max_context: tokens of the student's longest episode.
    timeout_s: limit of a request.
    deterministic: whether an engine's scores are the same to the last bit.
    prompt_ids: of the messages of a prompt, as the student reads them.

  Raises:
    ConfigError: the teacher has another tokenizer, or too few positions.
    AgentrlError: it cannot be loaded, or does not answer.
  """
  key = None
  if options.urls:
    urls = list(options.urls)
    if options.api_key_file:
      key = auth.read_token(options.api_key_file)
  else:
    served, version = language_model.load_policy(
        model(options, policy), dtype=DTYPES[dtype]
    )
    room = max_context + len(student.encode(options.hint))
    language_model.check_context(served.config, 'algo.teacher', room)
    _, url = start.start_engine(
        stack,
        start.ServedPolicy(
            model=served,
            version=version,
            dtype=dtype,
            max_context=room,
            seed=0,  # nothing is sampled
            chat_template=None,
            chat_date=None,
            episodes=options.concurrency,
        ),
        EmbeddedOptions(
            max_running=options.concurrency, deterministic=deterministic
        ),
        reserved=RESERVED,
    )
    urls = [url]
  sampler = Sampler(
      loop.session, urls, temperature=1.0, timeout_s=timeout_s, api_key=key
  )
  teacher = Teacher(
      sampler,
      concurrency=options.concurrency,
      hint=options.hint,
      prompt_ids=prompt_ids,
  )

  async def meet() -> None:
    await sampler.wait_ready(timeout_s)
    await teacher.check(student.encode)

  loop.run(meet())
  return teacher
