"""Kinds of measurement, a folder each: what is asked for, how it is carried out, what is found and shown."""
