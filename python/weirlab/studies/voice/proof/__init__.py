"""Every route of a plan proved by a call: what is planned, what the wire and the engines' logs show, a verdict."""
