"""Servers of OpenEnv as environments."""
