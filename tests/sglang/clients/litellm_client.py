"""litellm against a server: `python litellm_client.py URL NAME`; JSON out."""

import asyncio
import json
import sys

import litellm

url, name = sys.argv[1:]
ask = dict(
    model=f'openai/{name}',
    messages=[
        {'role': 'system', 'content': 'Answer in one word.'},
        {'role': 'user', 'content': 'What is the capital of France?'},
    ],
    api_base=f'{url}/v1',
    api_key='any',
    temperature=0,
    max_tokens=8,
)


async def both():
  """Two at once: a whole reply, and a stream."""

  async def stream():
    chunks = await litellm.acompletion(**ask, stream=True)
    return [chunk.choices[0].delta.content or '' async for chunk in chunks]

  return await asyncio.gather(litellm.acompletion(**ask), stream())


whole = litellm.completion(**ask, logprobs=True, top_logprobs=2)
chunks = [
    chunk.choices[0].delta.content or ''
    for chunk in litellm.completion(**ask, stream=True)
]
completion = litellm.text_completion(
    model=f'text-completion-openai/{name}',
    prompt='The capital of France is',
    api_base=f'{url}/v1',
    api_key='any',
    temperature=0,
    max_tokens=3,
)
awaited, awaited_chunks = asyncio.run(both())
try:
  litellm.completion(**ask | {'temperature': 5000, 'top_p': 3})
  refused = None
except litellm.BadRequestError as error:
  refused = str(error)
print(
    json.dumps({
        'whole': whole.choices[0].message.content,
        'tokens': len(whole.choices[0].logprobs.content),
        'usage': whole.usage.completion_tokens,
        'finish_reason': whole.choices[0].finish_reason,
        'stream': ''.join(chunks),
        'awaited': awaited.choices[0].message.content,
        'awaited_stream': ''.join(awaited_chunks),
        'completion': completion.choices[0].text,
        'refused': refused,
    })
)
