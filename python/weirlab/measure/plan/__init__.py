"""The trials of a profile: the loads of its grid, and what is measured besides the grid."""
