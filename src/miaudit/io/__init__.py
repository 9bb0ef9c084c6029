"""Files in and out: tables, YAML and coins from strangers, and writing that is whole or not at all."""

__all__ = ["sealed_coins", "tables"]
