"""Model files and parameter trees: tables of names."""
