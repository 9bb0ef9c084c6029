"""Configuration files: read, checked whole, and turned into the records of the library."""

__all__ = ["target"]
