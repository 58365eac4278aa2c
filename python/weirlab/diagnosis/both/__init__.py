"""A transfer captured at both of its ends: what became of its packets in between, and why it was slow."""
