"""Long texts, cut."""


def truncate(text: str, most_chars: int, *, keep_end: bool = False) -> str:
  """`text`; of a longer one its beginning, and the number of characters cut.

  Args:
    text: any.
    most_chars: characters that are kept, at most.
    keep_end: whether half of them are of the end: a program's output often closes
      with its error.
  """
  if len(text) <= most_chars:
    return text
  tail = most_chars // 2 if keep_end else 0
  head = tail or most_chars
  kept_end = f'\n{text[len(text) - tail :]}' if tail else ''
  cut = len(text) - head - tail
  return f'{text[:head]}\n[{cut} characters were cut]{kept_end}'
