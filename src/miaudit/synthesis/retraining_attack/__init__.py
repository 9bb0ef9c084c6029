"""The membership attack that trains generators with and without a target record."""

__all__ = ["membership"]
