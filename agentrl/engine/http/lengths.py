"""Refusal of texts that are too long, before they are tokenized."""

from agentrl.text.tokenizer import Tokenizer


def check(text: str, tokenizer: Tokenizer, max_len: int) -> None:
  """Raises ValueError for a text whose tokens cannot fit.

  Args:
    text: to be tokenized; without what may be trimmed.
    tokenizer: of the text.
    max_len: most tokens of prompt and completion.
  """
  # Short ones are tokenized as quickly as they are measured.
  if len(text) < max_len or tokenizer.bound is None:
    return
  least = tokenizer.bound.least_tokens(text)
  if least >= max_len:
    raise ValueError(
        f'The prompt of {len(text)} characters has at least {least} tokens, of'
        f' at most {tokenizer.bound.most} bytes each, and does not leave room'
        f' for one more in the context length of {max_len} tokens. Shorten the'
        ' prompt.'
    )
