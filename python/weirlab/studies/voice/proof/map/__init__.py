"""A plan's network as a picture: what is in it, where it is drawn, and the ways that calls took."""
