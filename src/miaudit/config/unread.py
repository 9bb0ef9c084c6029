"""Keys of an audit that nothing reads: they are reported or refused, never ignored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from miaudit.collect.outputs import SIDE_FILES
from miaudit.evidence import Evidence

Source = Literal["table", "pair", "target", "tokens", "synthetic"]
_OF_COLUMNS = tuple(
    f"evaluation.{name}" for name in ("score", "member", "labels", "covariates", "text", "group", "run", "propensity")
)
_OF_SIDES = tuple(f"evaluation.{side}_{kind}_path" for kind in SIDE_FILES for side in ("member", "nonmember"))
_OF_LABELS = ("evaluation.labels", *_OF_SIDES[:2])
_OF_RATIOS = tuple(f"attack.{name}" for name in ("variance", "statistic", "statistics", "folds"))
_OF_COINS = ("coins.reveal",)
_OF_SCORES = ("attack.type", "attack.headline", "evaluation.signal")
_OF_BUNDLES = ("share", "seal")  # of the command line only
_OF_SYNTHETIC = tuple(f"synthetic.{name}" for name in ("schema_path", "secrets", "known", "records"))
_OF_BOUNDS = ("privacy.delta", "privacy.guesses", "privacy.correction", "privacy.margin", "evaluation.bounds_model")
_OF_RUNS = ("privacy.at_least",)
_OF_LEARNING = ("evaluation.propensity_model", "evaluation.classifier", "evaluation.propensity_sample_path")
_OF_GIVEN = ("evaluation.propensity", *(f"evaluation.{side}_propensities_path" for side in ("member", "nonmember")))
_OF_REFERENCE = tuple(f"reference.{name}" for name in ("score", "use", "trained_on_neither"))
OF_ZERO_RUN = (
    *(f"evaluation.{name}" for name in ("categories", "components", "estimator")),
    *_OF_LEARNING,
    *_OF_GIVEN,
    "reporting.raw_only",
    *_OF_BOUNDS[2:],
    *_OF_REFERENCE,
)


def unread(
    given: Iterable[str],
    source: Source,
    *,
    signal: str = "",
    design: str | None = None,
    bounds: bool = True,
    evidence: Evidence | None = None,
) -> Iterator[tuple[str, str, str]]:
    """Yield the keys that were given and that nothing reads, each with the reason and with what it goes with.

    Parameters
    ----------
    given : keys with their sections, such as ``reporting.prior``
    source : what the audit reads
    signal : what the outputs are, where they are given
    design : as declared, or as the evidence has it
    bounds : whether bounds on privacy parameters are wanted
    evidence : what was read, once it was
    """
    scores, randomised = signal == "score", design in ("one-run", "multi-run")
    table, columns, text, one_run = source == "synthetic", True, True, False
    present = set(given)
    no_files = source == "pair" and "evaluation.member_references_path" not in present
    if evidence is not None:
        columns = evidence.covariates is not None
        text, one_run = columns or evidence.text is not None, evidence.run is None
    beside = {"synthetic": "beside a synthetic table", "tokens": "for token-logprobs", "pair": "for two files"}
    rules = (
        (_OF_SYNTHETIC, not table, "without a synthetic table", "it goes with one"),
        (_OF_COLUMNS, source in beside, beside.get(source, ""), "it names a column of a table"),
        (("evaluation.unit",), source in ("tokens", "pair"), beside.get(source, ""), "it names a column of a table"),
        (_OF_SIDES, source != "pair", "without files of members and of non-members", "it goes with those"),
        ((*_OF_SCORES, *OF_ZERO_RUN, *_OF_BUNDLES), table, "beside a synthetic table", "it goes with scores"),
        (_OF_RATIOS, source in ("synthetic", "tokens"), beside.get(source, ""), "it goes with gaussian_lira"),
        (("attack.type", *_OF_RATIOS), scores, "for scores", "scores are already an attack's"),
        (_OF_LABELS, scores, "for scores", "it goes with logits and probabilities"),
        (_OF_BOUNDS, not bounds, "without bounds", "it goes with bounds on privacy parameters"),
        (_OF_REFERENCE, no_files, "without files of reference scores", "it goes with those of both sides"),
        (OF_ZERO_RUN, randomised, f"with design {design}", "it goes with zero-run"),
        (("privacy.guesses",), design == "multi-run", "with design multi-run", "there every run counts"),
        (_OF_COINS, table or source == "pair", beside.get(source, ""), "it goes with a table of records in one order"),
        (_OF_RUNS, not bounds, "without bounds", "it goes with bounds on privacy parameters"),
        (_OF_RUNS, one_run or table, "without several runs", "it goes with one file for each run, or runs: 4"),
        (("evaluation.categories",), not columns, "without covariates", "it goes with covariates, and with zero-run"),
        (("evaluation.components",), not text, "without covariates", "it goes with covariates, and with zero-run"),
        (_OF_LEARNING, bool(present & set(_OF_GIVEN)), "beside given propensities", "nothing is learned then"),
        (
            _OF_BOUNDS[-1:],
            bool(present & {*_OF_GIVEN, *_OF_LEARNING[1:]}),
            "without a line",
            "it enlarges the one learned here",
        ),
        (_OF_LEARNING[1:], not text, "without covariates", "it goes with covariates, and with zero-run"),
        (_OF_LEARNING[:1], "evaluation.classifier" in present, "beside a classifier", "choose one of the two"),
        (
            _OF_LEARNING[:1],
            "evaluation.propensity_sample_path" in present,
            "for a separate sample",
            "a line is learned from it, or a classifier",
        ),
    )
    for keys, applies, why, place in rules:
        yield from ((key, why, place) for key in keys if applies and key in present)
