"""Rules of iptables, from the output of its save commands."""
