"""Processes of the service that need other rights than the service itself, and who starts them."""
