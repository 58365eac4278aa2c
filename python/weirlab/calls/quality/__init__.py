"""How the voice streams of a capture were heard."""
