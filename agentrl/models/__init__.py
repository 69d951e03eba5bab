"""Networks: one decoder for trainer and engine."""
