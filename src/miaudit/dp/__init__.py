"""Differential privacy: trade-off functions, lower bounds from many runs, one run or none, and verdicts on claims."""

from miaudit.dp import accounting, bounds, guesses, mechanism, multi_run, one_run, tradeoff, verdict, zero_run

__all__ = ["accounting", "bounds", "guesses", "mechanism", "multi_run", "one_run", "tradeoff", "verdict", "zero_run"]
