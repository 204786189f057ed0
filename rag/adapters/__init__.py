"""Implementations of the ports: everything that knows a vendor."""
