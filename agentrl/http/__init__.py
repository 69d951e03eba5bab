"""Shared parts of the HTTP servers and clients."""
