"""Captures: received, analysed in a child process, shown as graphs of any part of them."""
