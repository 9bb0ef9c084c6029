"""What evidence says of membership: curves, metrics and their intervals."""

from miaudit.causal import bootstrap, classical, intervals, roc, units

__all__ = ["bootstrap", "classical", "intervals", "roc", "units"]
