"""Environments that others wrote, each behind one file: their package, our `SPEC`."""
