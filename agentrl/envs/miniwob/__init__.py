"""MiniWoB++: small web tasks in a real browser (arXiv:1802.08802)."""
