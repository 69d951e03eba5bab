"""Text and token ids: tokenizers and chat templates."""
