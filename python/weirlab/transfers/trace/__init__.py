"""What captures show."""
