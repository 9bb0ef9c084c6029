"""Generators along a causal graph: trained, with or without privacy, released and accounted for."""

__all__ = ["ledger"]
