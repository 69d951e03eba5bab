"""The file of a small model's tensors, and changes to it."""

import safetensors.numpy

WEIGHTS = 'model.safetensors'


def change_tensors(directory, change):
  tensors = safetensors.numpy.load_file(directory / WEIGHTS)
  safetensors.numpy.save_file(change(tensors), directory / WEIGHTS)
