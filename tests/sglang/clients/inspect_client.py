"""inspect-ai against a server: `python inspect_client.py NAME LOGS`; JSON out.

The server is named by POLICY_BASE_URL and POLICY_API_KEY, as inspect-ai's
OpenAI-compatible provider wants it.
"""

import json
import sys

import inspect_ai
from inspect_ai.dataset import Sample
from inspect_ai.scorer import match
from inspect_ai.solver import generate, system_message

name, logs = sys.argv[1:]
task = inspect_ai.Task(
    dataset=[
        Sample(input='What is the capital of France?', target='Paris'),
        Sample(input='Which city is the capital of Italy?', target='Rome'),
        Sample(input='What is the capital of Japan?', target='Atlantis'),
    ],
    solver=[system_message('Answer in one sentence.'), generate()],
    scorer=match(location='any'),
)
[log] = inspect_ai.eval(
    task,
    model=f'openai-api/policy/{name}',
    log_dir=logs,
    display='none',
    temperature=0,
    max_tokens=16,
    seed=1,
    logprobs=True,
)
samples = log.samples or []
print(
    json.dumps({
        'status': log.status,
        'error': log.error and log.error.message,
        'accuracy': (
            log.results and log.results.scores[0].metrics['accuracy'].value
        ),
        'outputs': [sample.output.completion for sample in samples],
        'scores': [sample.scores['match'].value for sample in samples],
        'tokens': [
            len(sample.output.choices[0].logprobs.content) for sample in samples
        ],
        'used': [sample.output.usage.output_tokens for sample in samples],
    })
)
