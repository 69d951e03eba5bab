"""The embedded inference server: slots, programs, batching, HTTP."""
