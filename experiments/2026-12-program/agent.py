"""An agent as its users write it: a loop of the openai package, with a tool.

It knows nothing of training: `play` is all that a product would have. `answer` says what
the policy should, for imitation.
"""

import json

import openai

TOOLS = [{
    'type': 'function',
    'function': {
        'name': 'multiply',
        'description': 'Multiplies two numbers.',
        'parameters': {
            'type': 'object',
            'properties': {
                'a': {'type': 'integer'},
                'b': {'type': 'integer'},
            },
            'required': ['a', 'b'],
        },
    },
}]


def play(url, task, seed):
  """The reward of an episode: whether the last answer is right."""
  del seed
  client = openai.OpenAI(base_url=url, api_key='x', max_retries=0)
  question = (
      f'What cost {task["count"]} {task["what"]} at {task["price"]} each?'
  )
  messages = [
      {
          'role': 'system',
          'content': 'Compute with the tool, then say the price.',
      },
      {'role': 'user', 'content': question},
  ]
  for _ in range(3):
    reply = client.chat.completions.create(
        model='policy', messages=messages, tools=TOOLS
    )
    message = reply.choices[0].message
    messages.append(message.model_dump(exclude_none=True))
    if not message.tool_calls:
      break
    for call in message.tool_calls:
      given = json.loads(call.function.arguments)
      messages.append({
          'role': 'tool',
          'tool_call_id': call.id,
          'content': str(given['a'] * given['b']),
      })
  right = task['count'] * task['price']
  return float((messages[-1].get('content') or '') == f'They cost {right}.')


def answer(messages, task, seed):
  """The call, and then the price."""
  del seed
  if messages[-1]['role'] == 'tool':
    return f'They cost {messages[-1]["content"]}.'
  arguments = {'a': task['count'], 'b': task['price']}
  return {'name': 'multiply', 'arguments': arguments}
