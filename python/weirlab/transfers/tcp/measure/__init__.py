"""A transfer with both ends watched and captured, on one time axis, and why it was not faster."""
