"""A plan proved by calls: what is planned, what the wire and the engines' logs show, a verdict."""
