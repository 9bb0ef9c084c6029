"""Files in and out: tables and YAML from strangers, and writing that is whole or not at all."""

__all__ = ["tables"]
