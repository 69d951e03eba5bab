"""An agent as its users write it: a loop of the openai package, with a tool.

    python -m tests.envs.adapters.program_agent

It knows nothing of training; of its task it reads AGENTRL_TASK.
"""

import json
import os
import urllib.request

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


def solve(url, task, seed=0, *, stream=False):
  """The reward of an episode: whether the answer is right."""
  del seed
  client = openai.OpenAI(base_url=url, api_key='x', max_retries=0)
  messages = [
      {'role': 'system', 'content': 'Use the tool.'},
      {'role': 'user', 'content': f'What is {task["a"]} times {task["b"]}?'},
  ]
  for _ in range(5):
    message = ask(client, messages, stream)
    messages.append(message)
    if not message.get('tool_calls'):
      break
    for call in message['tool_calls']:
      given = json.loads(call['function']['arguments'])
      messages.append({
          'role': 'tool',
          'tool_call_id': call['id'],
          'content': str(given['a'] * given['b']),
      })
  right = str(task['a'] * task['b'])
  return float(right in (messages[-1].get('content') or ''))


def ask(client, messages, stream):
  """The assistant's message, as a dictionary."""
  how = dict(model='policy', messages=messages, tools=TOOLS, temperature=0.3)
  if not stream:
    reply = client.chat.completions.create(**how)
    return reply.choices[0].message.model_dump(exclude_none=True)
  content, calls = '', {}
  for chunk in client.chat.completions.create(**how, stream=True):
    for choice in chunk.choices:
      content += choice.delta.content or ''
      for call in choice.delta.tool_calls or ():
        calls[call.index] = call.model_dump(exclude_none=True)
  message = {'role': 'assistant', 'content': content}
  if calls:
    message['tool_calls'] = [
        {k: v for k, v in call.items() if k != 'index'}
        for call in calls.values()
    ]
  return message


def stream(url, task, seed):
  """The same over streams."""
  return solve(url, task, seed, stream=True)


if __name__ == '__main__':
  base = os.environ['OPENAI_BASE_URL']
  reward = solve(base, json.loads(os.environ['AGENTRL_TASK']))
  urllib.request.urlopen(
      urllib.request.Request(
          base.removesuffix('/v1') + '/reward',
          data=json.dumps({'reward': reward}).encode(),
          headers={'Content-Type': 'application/json'},
      )
  )
