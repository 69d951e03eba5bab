"""Stands in for SGLang's kernels, a gigabyte for GPUs that a CPU never calls."""
