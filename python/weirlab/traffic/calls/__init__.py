"""Calls as traffic: codecs, transports, when people call and talk, and every packet that results. Pure."""
