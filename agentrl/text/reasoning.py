"""The reasoning in a completion, in the tags of many models."""

import re

# Qwen's and DeepSeek's, Claude's, Seed's, Magistral's, Kimi's.
_TAGS = re.compile(
    r'</?(?:think|thinking|seed:think)>|\[/?THINK\]|\u25c1/?think\u25b7'
)


def is_tag(text: str) -> bool:
  """True for a tag that opens or closes reasoning."""
  return _TAGS.fullmatch(text) is not None


def answer(text: str) -> str:
  """The text of a completion outside of its reasoning.

  Reasoning weighs actions up, and so may write several. One that was cut off
  has no end. One has no beginning where the prompt opened it, or where a server
  took the tag away: then all text before its closing tag is reasoning.
  """
  parts: list[str] = []
  start, inside = 0, False
  for tag in _TAGS.finditer(text):
    closes = '/' in tag[0]
    if closes and not inside:
      parts.clear()
    elif not closes and not inside:
      parts.append(text[start : tag.start()])
    inside = not closes
    start = tag.end()
  if not inside:
    parts.append(text[start:])
  return ''.join(parts).lstrip('\n') if start else text
