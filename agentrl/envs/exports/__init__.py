"""Our environments in the interfaces of other harnesses."""
