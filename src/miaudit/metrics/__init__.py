"""Classical metrics of scores with intervals, and what they are made of: no models, no propensities."""

from typing import TYPE_CHECKING

from miaudit.errors.on_demand import on_demand

if TYPE_CHECKING:
    from miaudit.metrics import bootstrap, classical, definition, influence, roc, trials, units

__all__ = ["bootstrap", "classical", "definition", "influence", "roc", "trials", "units"]

__getattr__, __dir__ = on_demand(__name__, __all__)
