"""A transfer with both ends watched and captured, on one axis of time, and why it was not faster."""
