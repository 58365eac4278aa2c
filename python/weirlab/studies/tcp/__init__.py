"""TCP: bulk transfers between two hosts, and what the kernel tells of any connection of this one."""
