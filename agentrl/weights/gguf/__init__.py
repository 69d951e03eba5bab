"""GGUF files, llama.cpp's, read as models."""
