"""An agent of the openai package that guesses a number with a tool.

It knows nothing of training: `play` is all that a product would have. `wander` answers in
the policy's place, for imitation.
"""

import json
import random
import re

import openai

MOST = 15  # the number is from 1 to this
GUESSES = 4  # halving needs as many
TOOLS = [{
    'type': 'function',
    'function': {
        'name': 'guess',
        'description': 'Says between which numbers it is.',
        'parameters': {
            'type': 'object',
            'properties': {'number': {'type': 'integer'}},
            'required': ['number'],
        },
    },
}]


def play(url, task, seed):
  """The reward of an episode: 1 if the number is found."""
  del seed
  client = openai.OpenAI(base_url=url, api_key='x', max_retries=0)
  low, high = 1, MOST
  messages = [
      {'role': 'system', 'content': f'Find a number in {GUESSES} guesses.'},
      {'role': 'user', 'content': f'{low} to {high}'},
  ]
  for _ in range(GUESSES):
    reply = client.chat.completions.create(
        model='policy', messages=messages, tools=TOOLS
    )
    message = reply.choices[0].message
    messages.append(message.model_dump(exclude_none=True))
    if not message.tool_calls:
      return 0.0
    (call,) = message.tool_calls
    number = json.loads(call.function.arguments).get('number')
    if number == task['number']:
      return 1.0
    if isinstance(number, int) and low <= number <= high:
      low, high = (
          (number + 1, high) if number < task['number'] else (low, number - 1)
      )
    messages.append({
        'role': 'tool',
        'tool_call_id': call.id,
        'content': f'{low} to {high}',
    })
  return 0.0


def wander(messages, task, seed):
  """Any number of what is left, as somebody guesses who does not count."""
  low, high = map(int, re.findall(r'\d+', messages[-1]['content']))
  number = random.Random(f'{seed} {task} {messages}').randint(low, high)
  return {'name': 'guess', 'arguments': {'number': number}}
