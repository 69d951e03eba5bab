"""TextCraft: craft a Minecraft item from recipes, in text."""
