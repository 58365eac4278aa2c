"""The program ``weir``: its commands, help, exit codes, completion and manual page."""
