"""The browser that environments of web pages share, and how it is driven."""
