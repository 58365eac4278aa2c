"""A transfer captured at both ends: what happened to its packets in between, and why it was slow."""
