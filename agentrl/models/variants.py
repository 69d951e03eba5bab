"""Shapes of known models, by the names that configs use."""

from agentrl.models.transformer import TransformerConfig

VARIANTS = {
    # For laptops and tests: trained from scratch in minutes.
    'tiny-1m': TransformerConfig(
        vocab_size=1024,
        hidden_size=128,
        intermediate_size=384,
        num_layers=4,
        num_heads=4,
        num_kv_heads=4,
        head_dim=32,
        max_positions=1024,
    ),
    # The shape of the benchmarks in experiments/README.md: 3,737,856.
    'tiny-4m': TransformerConfig(
        vocab_size=2048,
        hidden_size=256,
        intermediate_size=704,
        num_layers=4,
        num_heads=4,
        num_kv_heads=4,
        head_dim=64,
        max_positions=2048,
    ),
    'smollm2-135m': TransformerConfig(
        vocab_size=49152,
        hidden_size=576,
        intermediate_size=1536,
        num_layers=30,
        num_heads=9,
        num_kv_heads=3,
        head_dim=64,
        rope_theta=100000.0,
        max_positions=8192,
    ),
}


def get(name: str) -> TransformerConfig:
  """The shape called `name`."""
  if name not in VARIANTS:
    raise ValueError(f'Unknown variant {name!r}; known: {", ".join(VARIANTS)}.')
  return VARIANTS[name]
