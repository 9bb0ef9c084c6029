"""The keys of an audit's configuration file, by section."""

from __future__ import annotations

from typing import Annotated, Any

from miaudit.attacks.likelihood import GaussianLira, GaussianStatistics
from miaudit.auditing.plan import Plan
from miaudit.auditing.reference import Reference
from miaudit.collect.campaign import known
from miaudit.collect.outputs import SignalKind, from_table
from miaudit.config.section import Keys, keys_of, record_keys
from miaudit.errors import InputError, nearest
from miaudit.errors.options import Option
from miaudit.evidence import DESIGNS, Design
from miaudit.io import sides
from miaudit.synthesis.table_attacks.table_audit import TablePlan

__all__ = ["ATTACK", "EVALUATED", "MODEL", "OUTPUTS", "REFERENCE", "REPORTING", "SIGNAL_OF", "SYNTHETIC"]

Mapped = dict[str, Any]
SIGNAL_OF: dict[str, SignalKind] = {
    "losses": "loss",
    "scores": "score",
    "logits": "logits",
    "probabilities": "probabilities",
}
_COLUMNS = dict(
    zip(("labels", "covariates", "text", "unit", "group", "propensity"), sides.BESIDE, strict=False)
)  # references are scores, by name
_HOLDS = {  # what the files of a pair hold
    "losses": "losses (.npy)",
    "scores": "scores of an attack, higher for members (.npy)",
    "logits": "logits (.npy), records by classes",
    "probabilities": "probabilities (.npy), records by classes",
    "labels": "labels (.npy)",
    "covariates": "covariates (.npy), records by covariates",
    "texts": "texts (.npy), what each record says: a covariate too",
    "units": "units (.npy)",
    "groups": "groups (.npy)",
    "propensities": "known probabilities of membership (.npy), for zero-run: nothing is learned then",
    "references": "scores of reference models (.npy), or losses as theirs are, one column or two",
}
_APPLIES = {  # what has to hold beside there being two files
    "labels": ("predictions",),
    "propensities": ("scores", "zero-run"),
}


def _attacks(value: object) -> tuple[str, ...]:
    """Return the attacks that one name, or a list of names, stands for."""
    several = value if isinstance(value, list | tuple) else (value,)
    for name in several:
        names = known()
        if name not in names:
            hint = nearest(str(name), names) or "choose one"
            raise InputError("type", f"one of {', '.join(names)}", repr(name)[:60], hint)
    return tuple(several)


def _file_of(side: str, kind: str, contents: str) -> Option:
    """Return the option that names the file of one side."""
    text = f"The {side}s' {contents}.".replace("nonm", "non-m")
    if (side, kind) == ("member", "labels"):
        text = "The members' labels (.npy), with --members."
    return Option(text, applies=("two files", *_APPLIES.get(kind, ())) if kind in sides.BESIDE else ())


def _one_source(evaluation: Mapped) -> Mapped:
    """Refuse no outputs, or those of two sources, and what would be read from the other source only."""
    sources = [kind for kind in SIGNAL_OF if {f"member_{kind}_path", f"nonmember_{kind}_path"} & set(evaluation)]
    sources += [source for source, key in (("table", "table_path"), ("shards", "shards")) if key in evaluation]
    if len(sources) != 1:
        kinds = ", ".join(f"member_{k}_path with nonmember_{k}_path" for k in SIGNAL_OF)
        received = " and ".join(sources) or "none"
        raise ValueError(
            f"expected exactly one source of outputs ({kinds}, table_path, or shards), received {received}"
        )
    for kind in _HOLDS:
        there = [side for side in ("member", "nonmember") if f"{side}_{kind}_path" in evaluation]
        if len(there) == 1:
            missing = "nonmember" if there == ["member"] else "member"
            raise InputError(f"{missing}_{kind}_path", "a file beside its counterpart", "none", "add it")
    if sources == ["table"]:
        lines = evaluation["table_path"].lower().endswith(".jsonl")  # of probes, whose key says what is true
        if "score" in evaluation and "member" not in evaluation and not lines:
            raise InputError("member", "the column of membership, beside score", "none", "add it")
        unread = {f"member_{kind}_path": name for name, kind in _COLUMNS.items() if f"member_{kind}_path" in evaluation}
        place, instead = "beside table_path", "name columns of the table"
    elif sources == ["shards"]:
        unread = {f"member_{kind}_path": "none" for kind in _COLUMNS.values() if f"member_{kind}_path" in evaluation}
        place, instead = "beside shards", "audit one file"
    else:
        unread = {name: f"member_{kind}_path" for name, kind in _COLUMNS.items() if name in evaluation}
        unread |= {name: "member_..._path" for name in ("score", "member") if name in evaluation}
        place, instead = "without table_path", "give files"
    if unread:
        more = ", ".join(f"{other} for {name}" for name, other in unread.items())
        raise ValueError(f"expected no {' or '.join(unread)} {place}; {instead} instead ({more})")
    named = SIGNAL_OF.get(sources[0])
    if named is not None and evaluation.get("signal", named) != named:
        received = evaluation["signal"]
        raise ValueError(f"expected signal {named}, as the files are named, received {received}; leave it out")
    return evaluation


MODEL = Keys(
    {
        "architecture": Annotated[str | None, Option("What was audited: its architecture, for the record.")],
        "checkpoint": Annotated[str | None, Option("Where it is kept, for the record; never opened.")],
        "num_classes": Annotated[int | None, Option("Its number of classes, for the record.", ge=2)],
        "name": Annotated[str | None, Option("Its name, for the record.")],
    }
)
ATTACK = Keys(
    {
        "type": Annotated[
            tuple[str, ...],
            Option(
                "From losses: loss, gaussian_lira. From outputs also: logit_confidence, margin, entropy, "
                "modified_entropy. From token-logprobs: loss, min_k, min_k_plus_plus, reference_ratio, all that the "
                "file allows by default, and zlib_ratio. Repeat for several; else loss by default.",
                read=_attacks,
                applies=("scores", "outputs"),
            ),
        ],
        **keys_of(Plan, "fpr_targets", "n_bootstrap", "headline"),
        **keys_of(GaussianLira, "variance", "statistic", "folds"),
        "statistics": Annotated[Any, record_keys(GaussianStatistics)] | None,
    }
)
EVALUATED = Keys(
    {
        **keys_of(Plan, "categories", "exclude_levels", "components", "estimator"),
        **keys_of(Plan, "propensity_model", "classifier", "bounds_model", "by_covariates"),
        "propensity_sample_path": Annotated[
            str | None,
            Option(
                "Other records (.npz, .parquet, .csv) with membership and the same columns of covariates, which the "
                "propensity is learned from (zero-run).",
                applies=("scores", "zero-run", "covariates or texts"),
            ),
        ],
        "output_dir": Annotated[str, Option("Folder for findings, report page and figures.")],
        "design": Annotated[
            Design | None,
            Option(
                "How membership was decided: one-run or multi-run (at random), matched (random strings with decoys) or "
                "zero-run (not at random). Left out: no verdict.",
                "leave it out if it is not known how membership was decided",
                allowed=f"one of {', '.join(DESIGNS)}",
            ),
        ],
        **keys_of(from_table, "inclusion"),
        **keys_of(Plan, "intervals", "confidence"),
        "seed": Annotated[int, Option("Seed of everything random; it is written into the findings.", ge=0)],
    }
)
OUTPUTS = Keys(
    {
        **EVALUATED.kinds,
        **{
            f"{side}_{kind}_path": Annotated[str | None, _file_of(side, kind, what)]
            for kind, what in _HOLDS.items()
            for side in ("member", "nonmember")
        },
        "table_path": Annotated[
            str | None,
            Option("A table: .npz (arrays), .parquet or .csv (columns). Or scored probes of miaudit decoys: .jsonl."),
        ],
        "shards": Annotated[
            str | None,
            Option(
                "Files of one audit that are too large for memory, as a quoted pattern: 'scores/*.parquet'. They hold "
                "records, or counts of members and non-members at each score.",
            ),
        ],
        "key_path": Annotated[
            str | None,
            Option("The key of probes with decoys (.json); default: the one beside them.", applies=("probes",)),
        ],
        "reference_path": Annotated[
            str | None,
            Option(
                "The same probes, scored by a model that never saw any of the strings (.jsonl): it tests the law of "
                "the decoys.",
                applies=("probes",),
            ),
        ],
        **keys_of(from_table),
    },
    make=_one_source,
)
REPORTING = Keys(
    {
        **keys_of(
            Plan, "limits", "primary_metric", "threshold_for_concern", "levels", "prior", "row_level", "raw_only"
        ),
        "figures": Annotated[
            bool,
            Option("Leave out the charts of the report page and the folder figures/; miaudit report draws them later."),
        ],
    }
)
REFERENCE = Keys(keys_of(Reference.named))
SYNTHETIC = Keys(
    {
        "table_path": Annotated[
            str,
            Option("A synthetic table (.csv, .parquet), audited against --members and --nonmembers of the same kind."),
        ],
        "members_path": Annotated[str, Option("Or .npy of the members' signal.")],
        "nonmembers_path": Annotated[str, Option("And .npy of the non-members' signal.")],
        "schema_path": Annotated[
            str | None,
            Option(
                "Its columns (YAML); without it they are inferred from the synthetic table.",
                applies=("synthetic table",),
            ),
        ],
        **keys_of(TablePlan, "secrets", "known", "keep", "records"),
    },
    required=frozenset({"table_path", "members_path", "nonmembers_path"}),
)
