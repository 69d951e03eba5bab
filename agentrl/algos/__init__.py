"""Algorithms, a module each; see `online` for those that configs name.

The package imports nothing itself: `hyperparams` is read before jax is.
"""
