"""pydantic-ai against a server: `python pydantic_ai_client.py URL NAME`."""

import asyncio
import json
import sys

import pydantic
from pydantic_ai import Agent, exceptions
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

url, name = sys.argv[1:]
model = OpenAIChatModel(
    name, provider=OpenAIProvider(base_url=f'{url}/v1', api_key='any')
)
settings = {'temperature': 0, 'max_tokens': 8}
agent = Agent(
    model, instructions='Answer in one word.', model_settings=settings
)
QUESTION = 'What is the capital of France?'


class City(pydantic.BaseModel):
  """An answer that pydantic-ai asks for by a tool."""

  name: str


async def main() -> dict:
  """Two turns, a stream, and a wish that a policy without tools refuses."""
  result = await agent.run(QUESTION)
  again = await agent.run(
      'And of Spain?', message_history=result.all_messages()
  )
  async with agent.run_stream(QUESTION) as streamed:
    stream = [text async for text in streamed.stream_text(delta=True)]
  try:
    await Agent(model, output_type=City).run(QUESTION)
    refused = None
  except exceptions.ModelHTTPError as error:
    refused = [error.status_code, str(error.body)]
  except exceptions.UnexpectedModelBehavior:  # tools, but no call of them
    refused = None
  return {
      'whole': result.output,
      'usage': result.usage.output_tokens,
      'again': again.output,
      'again_prompt': again.usage.input_tokens,
      'stream': ''.join(stream),
      'refused': refused,
  }


print(json.dumps(asyncio.run(main())))
