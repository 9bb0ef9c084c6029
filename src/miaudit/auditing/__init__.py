"""The audit from evidence to findings: plan, choice of scores, corrections, bounds and verdict."""

__all__ = ["outlook", "paired_records", "plan", "power", "reference", "usage"]
