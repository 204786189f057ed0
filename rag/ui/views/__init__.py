"""The pages, each a script that reads top to bottom."""
