"""Measurements: what a strategy, or the text sent with a match, changes about the answers."""
