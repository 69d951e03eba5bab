"""SearchQA: answer multi-hop questions with a search engine, in text."""
