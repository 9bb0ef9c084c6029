"""The audit from evidence to findings: plan, choice of scores, corrections, bounds and verdict."""

__all__ = ["outlook", "plan", "power", "reference", "paired_records"]
