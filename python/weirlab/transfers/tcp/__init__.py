"""TCP: bulk transfers between two hosts, why one is slow, and what the kernel reports of any connection."""
