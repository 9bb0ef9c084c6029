"""Attacks: plain functions from a model's outputs to scores; they see arrays, never models."""

from miaudit.attacks import likelihood, signals

__all__ = ["likelihood", "signals"]
