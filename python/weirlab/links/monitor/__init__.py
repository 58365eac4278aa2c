"""What a monitor records of a link, and what it costs the link."""
