"""Models: fitted to profiles, used for predictions, and verified."""
