"""Stands in for the package of this name, of which SGLang takes one function on a CPU that its own kernels do not fit."""
