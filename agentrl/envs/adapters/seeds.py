"""Tasks that are seeds of an environment that others wrote, by split."""

COUNT = 20_000
SPLITS = {
    'test': range(1000),
    'dev': range(1000, 2000),
    'train': range(2000, COUNT),
}
