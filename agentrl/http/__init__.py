"""What the HTTP servers and clients here share."""
