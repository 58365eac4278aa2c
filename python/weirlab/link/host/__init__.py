"""Interfaces that a tap takes: looked at, prepared, bridged without XDP, and given back."""
