"""The library of profiles: what is in it, adding to it, checking it, and ranking its devices."""
