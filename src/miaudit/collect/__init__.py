"""From models, their outputs or files of them to evidence; the only room that knows both models and attacks."""

from typing import TYPE_CHECKING

from miaudit.errors.on_demand import on_demand

if TYPE_CHECKING:
    from miaudit.collect.outputs import (
        Attack,
        Collected,
        from_outputs,
        from_pairs,
        from_table,
        from_tokens,
        one_run,
        with_headline,
    )
    from miaudit.collect.runs import multi_run

__all__ = [
    "Attack",
    "Collected",
    "campaign",
    "canaries",
    "decoys",
    "drawn",
    "extraction",
    "from_outputs",
    "from_pairs",
    "from_table",
    "from_tokens",
    "generations",
    "leakage_scorer",
    "model_audit",
    "multi_run",
    "one_run",
    "probe_scores",
    "random_strings",
    "records",
    "ridge",
    "run_campaign",
    "runs",
    "score_shards",
    "stability",
    "with_headline",
]

_HOMES = {
    **dict.fromkeys(
        ("Attack", "Collected", "from_outputs", "from_pairs", "from_table", "from_tokens", "one_run", "with_headline"),
        "outputs",
    ),
    "multi_run": "runs",
}
__getattr__, __dir__ = on_demand(__name__, __all__, _HOMES)
