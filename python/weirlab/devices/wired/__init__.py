"""The user's own device between two ports: which ports there are, what a test would meet, and the cable."""
