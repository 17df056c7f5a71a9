"""The helpers."""
