"""Completions in gpt-oss's format, harmony, as text.

A completion is one or more messages, each of a channel: reasoning in `analysis`,
words before a call in `commentary`, the answer in `final`
(https://github.com/openai/harmony). The generation prompt is an open message of the
assistant, whose channel the policy chooses.
"""

START, CHANNEL, MESSAGE = '<|start|>', '<|channel|>', '<|message|>'
CALL = '<|call|>'  # ends a message that calls a tool
_ENDS = ('<|end|>', '<|return|>', CALL)
_FINAL = 'final'


def read(completion: str) -> str:
  """The text of a completion: its answer behind what it thought, in `<think>` tags.

  Args:
    completion: what follows the generation prompt, with control tokens.

  Returns:
    The content of the messages of `final`, and of all others as one block of
    thought before it; the block stays open where the last message is a thought
    that was cut off.
  """
  thoughts, answers, is_open = [], [], False
  for message in completion.split(START):
    header, _, content = message.partition(MESSAGE)
    end = next((x for x in _ENDS if content.endswith(x)), '')
    content = content.removesuffix(end)
    if header.partition(CHANNEL)[2].split(' ')[0] == _FINAL:
      answers.append(content)
    else:
      thoughts.append(content)
      is_open = not end
  answer = '\n'.join(answers)
  if not thoughts:
    return answer
  thought = '<think>\n' + '\n'.join(thoughts)
  return thought if is_open else f'{thought}\n</think>\n\n{answer}'
