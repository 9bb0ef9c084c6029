"""Classical metrics of scores with intervals, and what they are made of: no models, no propensities."""

from miaudit.metrics import bootstrap, classical, definition, roc, trials, units

__all__ = ["bootstrap", "classical", "definition", "roc", "trials", "units"]
