"""Names that a config may choose from in training; imports no jax."""

OPTIMIZERS = ('adamw', 'adamw8bit', 'adafactor', 'muon')
SCHEDULES = ('constant', 'linear', 'cosine')
# What a push does to requests under way, see `weight_sync` and `disk_push`.
PUSHES = ('retract', 'drain', 'abort', 'in_place')
SHARD_BYTES = 10**9  # of a pushed file
