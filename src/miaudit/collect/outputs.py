"""From models, their outputs or files of them to evidence; the only place that knows both models and attacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miaudit.arrays import FloatArray, IndexArray
from miaudit.attacks import likelihood, signals, tokens
from miaudit.attacks.likelihood import GaussianLira
from miaudit.auditing import propensities
from miaudit.auditing.extraction import in_both
from miaudit.auditing.headline import Headline
from miaudit.auditing.unused_columns import UnusedValues
from miaudit.collect import known_before
from miaudit.collect.stability import Stability
from miaudit.errors import InputError, nearest
from miaudit.errors.checks import check_generator
from miaudit.errors.options import Option
from miaudit.evidence import Evidence
from miaudit.findings.audit import Vulnerability
from miaudit.io import cells, declared_kind, roles, sides, tables, token_files, token_records
from miaudit.io.inclusion import column_or_chance, one_for_all
from miaudit.io.sealed_coins import Coins
from miaudit.models.inclusion import coins

__all__ = [
    "GAUSSIAN_LIRA",
    "Attack",
    "Collected",
    "SignalKind",
    "from_outputs",
    "from_pairs",
    "from_table",
    "from_tokens",
    "of_outputs",
    "one_run",
    "unscored",
    "with_headline",
]

SignalKind = Literal["score", "loss", "logits", "probabilities"]
TOKENS = "token-logprobs"
REFERENCE_LOSS = "reference_loss"
GAUSSIAN_LIRA = "gaussian_lira"
_DESCRIBED = (
    "covariates",
    "covariate_names",
    "levels",
    "text",
    "unit",
    "group",
    "run",
    "inclusion",
    "design",
)  # by a table, beside its outputs
Model = TypeVar("Model")


@dataclass(frozen=True)
class Collected:
    """Evidence, what its collector has to say about it, and the score that the user declared to be the headline.

    ``headline`` is None where none was declared: all scores count then; ``vulnerability`` says which records leak,
    where shadow models showed it; ``propensity`` is what was given beside the scores, array (n,) in (0, 1); ``sample``
    holds the separate records that it is learned from; ``stability`` is that of the training, where it was measured;
    ``coins`` are sealed coins that memberships came from; ``about`` are those of the notes that go with the evidence
    wherever it is audited; ``unused`` holds columns of the file that are no part of the evidence.
    """

    evidence: Evidence
    notes: tuple[str, ...] = ()
    headline: Headline | None = None
    vulnerability: Vulnerability | None = None
    propensity: FloatArray | None = None
    sample: Evidence | None = None
    stability: Stability | None = None
    coins: Coins | None = None
    about: tuple[str, ...] = ()
    unused: UnusedValues | None = None

    def beside(self, given: Mapping[str, NDArray[Any]]) -> Collected:
        """Return the collection with propensities, by the name of their column, or without where there are none."""
        for name, values in given.items():
            cells.refuse_text(values, name, "probabilities strictly between 0 and 1")
            return replace(self, propensity=propensities.given(name, values, self.evidence))
        return self


@dataclass(frozen=True)
class Attack:
    """Which attacks to compute from outputs, by name, and the options of the Gaussian likelihood ratio."""

    names: tuple[str, ...] = ("loss",)
    lira: GaussianLira = GaussianLira()  # noqa: RUF009 - a frozen record

    def __post_init__(self) -> None:
        known = of_outputs()
        if not self.names:
            raise InputError("attack", f"one of {', '.join(known)}", "none", "choose one")
        for name in self.names:
            if name not in known:
                raise InputError(
                    "attack", f"one of {', '.join(known)}", repr(name), nearest(name, known) or "choose one"
                )


def of_outputs() -> tuple[str, ...]:
    """Return the attacks by name that need no more than outputs: the Gaussian likelihood ratio, and every signal."""
    return (GAUSSIAN_LIRA, *signals.SIGNALS)


def one_run(
    fit: Callable[[IndexArray], Model],
    score: Callable[[Model, IndexArray], ArrayLike | Mapping[str, ArrayLike]],
    *,
    records: int,
    inclusion: float = 0.5,
    rng: np.random.Generator,
    source: str = "",
) -> Evidence:
    """Train one model on a random part of the records and score them all (causal-mia, Algorithm 2).

    Parameters
    ----------
    fit : function of rows (k,), indices of the records to train on, that returns a model
    score : function of the model and of rows (n,), that returns a score (n,), higher for members, or several by name
    records : number of records n
    inclusion : probability, in (0, 1), with which each record is a member, independently of all others
    rng : generator of the memberships

    Returns
    -------
    Evidence with the design "one-run", and with ``inclusion`` where it is not 0.5

    Examples
    --------
    >>> data = np.random.default_rng(1).normal(size=(200, 3))
    >>> evidence = one_run(
    ...     lambda rows: data[rows].mean(axis=0),
    ...     lambda mean, rows: data[rows] @ mean,
    ...     records=200, rng=np.random.default_rng(0))
    >>> evidence.design, evidence.n
    ('one-run', 200)
    """
    member = coins(records, inclusion=inclusion, rng=rng)  # refuses a class that is empty before training
    model = fit(np.flatnonzero(member))
    chance = None if inclusion == 0.5 else inclusion
    return Evidence(
        score=score(model, np.arange(records)), member=member, design="one-run", inclusion=chance, source=source
    )


def from_outputs(
    *,
    member: ArrayLike,
    losses: ArrayLike | None = None,
    logits: ArrayLike | None = None,
    probabilities: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    attack: Attack | None = None,
    rng: np.random.Generator,
    **fields: Any,
) -> Collected:
    """Turn a model's outputs into evidence with the scores of the chosen attacks.

    Parameters
    ----------
    member : array (n,) of bool
    losses : array (n,), or
    logits : array (n, classes) with ``labels``, or
    probabilities : array (n, classes) with ``labels``
        Exactly one of the three.
    labels : array (n,) of int
    attack : Attack, optional
        Default: the loss. The caller says which; nothing is picked by its result.
    rng : generator of the folds of the Gaussian likelihood ratio
    fields
        Further fields of :class:`Evidence`: design, covariates, text, unit, group, inclusion, source.

    Raises
    ------
    InputError
        If losses alone are given and the attack needs more, or an array is unusable.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> losses = np.r_[rng.exponential(0.1, 100), rng.exponential(1.0, 100)]
    >>> collected = from_outputs(member=np.arange(200) < 100, losses=losses, rng=rng, design="one-run")
    >>> collected.evidence
    Evidence(100 members, 100 non-members, score: loss, design: one-run)
    """
    check_generator(rng)
    attack = attack or Attack()
    plain = [name for name in attack.names if name != GAUSSIAN_LIRA]
    if losses is not None:
        if beyond := [name for name in plain if name != "loss"]:
            hint = "give logits or probabilities and labels"
            raise InputError("attack", "loss or gaussian_lira, for losses", beyond[0], hint)
        checked = Evidence(score={"loss": losses}, member=member, **fields)  # the door: lengths, finite numbers
        notes = declared_kind.check_losses(losses, member=checked.member)
        base = checked.replace(score={"loss": -checked.score})
        scores = {"loss": base.score}
    else:
        if labels is None:
            allowed = "a label for each record, beside logits or probabilities"
            raise InputError("labels", allowed, "none", "name the labels")
        needed = list(dict.fromkeys([*plain, "loss", attack.lira.statistic]))
        notes = () if probabilities is None else declared_kind.check_probabilities(probabilities)
        if logits is not None:
            notes = declared_kind.check_logits(logits, labels, member=member)
        scores = signals.member_scores(labels=labels, logits=logits, probabilities=probabilities, names=needed)
        base = Evidence(score=scores, member=member, **fields)
    if GAUSSIAN_LIRA not in attack.names:
        return Collected(base.replace(score={name: scores[name] for name in plain}), notes)
    collected = _with_ratio(base, scores, plain, attack.lira, rng)
    return replace(collected, notes=(*notes, *collected.notes))


def _with_ratio(
    base: Evidence, scores: Mapping[str, FloatArray], plain: list[str], lira: GaussianLira, rng: np.random.Generator
) -> Collected:
    """Add the Gaussian likelihood ratio, or the statistic itself where the two order records alike (errata C1, C2)."""
    if lira.statistic == "loss":
        statistic = -scores["loss"]
    elif "logit_confidence" in scores:
        statistic = scores["logit_confidence"]
    else:
        statistic = likelihood.logit_confidence_of(-scores["loss"])
    selected = {name: scores[name] for name in plain}
    if lira.orders_as_statistic:
        selected = {"loss": scores["loss"], **selected}
        note = (
            "With equal variances the Gaussian ratio orders records exactly as its statistic, and cross-fitting it "
            "would only add noise: the loss itself is the score (erratum C1)."
        )
        return Collected(base.replace(score=selected), (note,))
    if lira.given is not None:
        ratio, stats = likelihood.log_ratio(statistic, lira.given), lira.given
    else:
        ratio = likelihood.cross_fitted(
            statistic, base.member, variance=lira.variance, folds=lira.folds, unit_codes=base.unit_codes, rng=rng
        )
        stats = likelihood.GaussianStatistics.fit(statistic, base.member, lira.variance)
    both = {GAUSSIAN_LIRA: ratio, "loss": scores["loss"], **selected}
    return Collected(base.replace(score=both), _ratio_notes(statistic, lira, stats))


def _ratio_notes(statistic: FloatArray, lira: GaussianLira, stats: likelihood.GaussianStatistics) -> tuple[str, ...]:
    how = "with statistics that were given" if lira.given else f"cross-fitted over {lira.folds} folds (erratum C2)"
    name = lira.statistic.replace("_", " ")
    alike = stats.monotone_between(float(statistic.min()), float(statistic.max()))
    shape = (
        f"over the values seen it is monotone in the {name}, so both order records alike up to the folds"
        if alike
        else f"with unequal variances it is not monotone in the {name}, and can be better or worse than it"
    )
    notes = [
        f"gaussian_lira: Gaussian likelihood ratio of the {name}, {how}; {shape} (erratum C1). "
        "The loss stands beside it."
    ]
    spread = statistic.std()
    skewness = float(np.mean(((statistic - statistic.mean()) / spread) ** 3)) if spread > 0 else 0.0
    if abs(skewness) > 2 and lira.statistic == "loss":
        notes.append(
            f"The losses are far from Gaussian (skewness {skewness:.1f}); of a model that gives probabilities, "
            "logit_confidence is nearer (erratum C4)."
        )
    return tuple(notes)


def from_table(
    path: str | Path,
    *,
    score: Annotated[
        str | Sequence[str] | None,
        Option("Columns of the signal. Several are corrected for.", applies=("score column",)),
    ] = None,
    member: Annotated[
        str | None,
        Option(
            "Column of membership: true/false, 1/0, train/test, member/nonmember or in/out.", applies=("member column",)
        ),
    ] = None,
    signal: Annotated[
        SignalKind,
        Option(
            "What the signal is: score (higher: more member-like), loss, logits, probabilities or token-logprobs.",
            applies=("scores",),
        ),
    ] = "score",
    labels: Annotated[
        str | None, Option("Column of class labels, for logits and probabilities.", applies=("columns", "predictions"))
    ] = None,
    attack: Attack | None = None,
    covariates: Annotated[
        str | Sequence[str] | None,
        Option(
            "Columns of covariates (numbers, dates; cells may be empty), repeated or with commas.", applies=("columns",)
        ),
    ] = None,
    text: Annotated[
        str | None, Option("Column of what each record says: a covariate too.", applies=("columns",))
    ] = None,
    unit: Annotated[
        str | None,
        Option(
            "Column of units (persons, accounts) that hold several records; with --synthetic one of members and "
            "non-members, which no attack sees.",
            applies=("unit column",),
        ),
    ] = None,
    group: Annotated[str | None, Option("Column of groups to report one by one.", applies=("columns",))] = None,
    run: Annotated[
        str | None,
        Option(
            "Column that says which training a row is of, where the same records were audited in several (one-run).",
            applies=("columns",),
        ),
    ] = None,
    propensity: Annotated[
        str | None,
        Option(
            "Column of known probabilities of membership (zero-run): nothing is learned then.",
            applies=("columns", "scores", "zero-run"),
        ),
    ] = None,
    inclusion: Annotated[
        str | float | None,
        Option(
            "Chance with which each record became a member (one-run): a number such as 0.8, or the column of a table. "
            "Where it is not 0.5, records are thinned to fair coins.",
            read=column_or_chance,
            applies=("chances", "one-run"),
        ),
    ] = None,
    categories: str | Sequence[str] = (),
    design: str | None = None,
    references: Sequence[str] = (),
    rng: np.random.Generator,
) -> Collected:
    """Read evidence, losses, logits or probabilities from one .npz, .parquet or .csv file.

    Parameters
    ----------
    path : path
    score : str or several
        The array or column of the signal. Logits and probabilities: a two-dimensional array, a list column, or one
        column for each class.
    member : str
    signal : what ``score`` holds: "score" (higher is more member-like), "loss", "logits" or "probabilities"
    labels : str, for logits and probabilities
    attack : Attack, for losses, logits and probabilities
    covariates, text, unit, group, run, inclusion, categories, design : as in :meth:`Evidence.load`
    propensity : str, optional; P(member | covariates) of each record, in (0, 1)
    references : columns of reference scores, where they are none of the evidence already
    rng : generator of folds
    """
    check_signal(signal, attack)
    for known in (covariates, text):
        known_before.check(known, {"score" if signal == "score" else f"score ({signal})": score, "membership": member})
    columns: dict[str, Any] = {"covariates": covariates, "text": text, "unit": unit, "group": group}
    columns |= {"run": run, "design": design, "categories": categories, "member": member, "inclusion": inclusion}
    read = _of_signal(path, signal, score, labels, attack, columns, rng)
    read = read.beside(tables.read_columns(path, [propensity] if propensity else []))
    return _beside(read, path, references, signal)


def _of_signal(
    path: str | Path,
    signal: SignalKind,
    score: str | Sequence[str] | None,
    labels: str | None,
    attack: Attack | None,
    columns: Mapping[str, Any],
    rng: np.random.Generator,
) -> Collected:
    """Read scores, or losses, logits or probabilities and score them."""
    if signal == "score":
        loaded = Evidence.load(path, score=score, **columns)
        return Collected(loaded, declared_kind.check_scores(loaded.scores))
    member, run = columns["member"], columns["run"]
    if run is not None:
        raise InputError("run", f"none, for signal {signal}", repr(run), "one file for each: miaudit audit RUN1 RUN2")
    if score is None or member is None:
        raise InputError("score and member", f"names of columns, for signal {signal}", "none", "name both")
    names = [score] if isinstance(score, str) else list(score)
    if signal == "loss" and len(names) > 1:
        raise InputError("score", "one column of losses", f"{len(names)}", "audit each loss by itself")
    values = tables.read_columns(path, [*names, *([labels] if labels else [])])
    # A column of the right length stands in for the score, so that all other columns pass the door of evidence.
    rest = Evidence.load(path, score=member, **columns)
    matrix = values[names[0]] if len(names) == 1 else np.column_stack([values[name] for name in names])
    return from_outputs(
        **_outputs(signal, matrix, values[labels] if labels else None),
        member=rest.member,
        attack=attack,
        rng=rng,
        source=f"{Path(path).name}: {', '.join(names)}",
        **{name: getattr(rest, name) for name in _DESCRIBED},
    )


def _beside(read: Collected, path: str | Path, references: Sequence[str], signal: SignalKind) -> Collected:
    """Read the columns of reference scores that are not among the scores already."""
    names = [name for name in references if name not in read.evidence.scores]
    columns = list(tables.read_columns(path, names).values())
    return _with_references(read, names, np.column_stack(columns), signal=signal) if columns else read


def from_tokens(
    path: str | Path,
    *,
    names: Sequence[str] | None = None,
    k: float = 0.2,
    design: str | None = None,
    inclusion: str | float | None = None,
    references: Sequence[str] = (),
) -> Collected:
    r"""Read token log-probabilities (.jsonl or .parquet) and score the texts; no model is needed.

    Parameters
    ----------
    path : path, see :func:`miaudit.io.token_files.read`
    names : from :data:`miaudit.attacks.tokens.ATTACKS`, optional
        Default: every score that the file has the arrays for. ``token_loss`` is ``loss``.
    k : share of least likely tokens, in (0, 1], of ``min_k`` and ``min_k_plus_plus``
    design : of the evidence; texts are a covariate, which also tests a declared design
    inclusion : one chance of inclusion for all texts
    references : ``reference_loss`` is the loss of the reference model, of ``reference_logprobs``

    Examples
    --------
    >>> import tempfile
    >>> lines = ['{"id": 1, "member": true, "logprobs": [-1.0]}', '{"id": 2, "member": false, "logprobs": [-2.5]}']
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "tokens.jsonl"
    ...     _ = file.write_text("\n".join(lines))
    ...     from_tokens(file, names=["loss"]).evidence
    Evidence(1 members, 1 non-members, score: loss, design: None)
    """
    records = token_files.read(path)
    wanted = None if not names else ["loss" if name == "token_loss" else name for name in names]
    scores = {**tokens.scores_of(records, wanted, k=k), **_reference_loss(records, references)}
    text = records.text  # a covariate: it also shows whether chance decided, as a declared design says
    evidence = Evidence(
        score=scores,
        member=records.member,
        text=None if text is None else np.asarray(text, dtype=np.str_),
        unit=None if records.unit is None else np.asarray(records.unit),
        group=None if records.group is None else np.asarray(records.group),
        design=design,
        inclusion=one_for_all(inclusion),
        source=Path(path).name,
    )
    # A zero-run audit counts twins by itself, beside those among the members.
    shared = "" if records.text is None or design == "zero-run" else in_both(records.text, records.member)
    return Collected(evidence, (*records.notes, *([shared] if shared else [])))


def _reference_loss(records: token_records.TokenRecords, names: Sequence[str]) -> dict[str, FloatArray]:
    """Minus the loss of the texts (n,) under the reference model of the file, where it is asked for."""
    for name in names:
        if name != REFERENCE_LOSS:
            hint = nearest(name, [REFERENCE_LOSS]) or "the other scores of the file are the audited model's"
            raise InputError("reference.score", f"{REFERENCE_LOSS}, for token-logprobs", repr(name), hint)
    values, offsets = records.reference_log_p, records.reference_offsets
    if not names:
        return {}
    if values is None or offsets is None:
        hint = "write what the reference model says of each text"
        raise InputError("reference.score", "reference_logprobs in the file", "none", hint)
    return {REFERENCE_LOSS: tokens.loss(values, offsets)}


def from_pairs(
    members: Mapping[str, str | Path],
    nonmembers: Mapping[str, str | Path],
    *,
    signal: SignalKind = "score",
    attack: Attack | None = None,
    design: str | None = None,
    inclusion: str | float | None = None,
    references: Sequence[str] = (),
    rng: np.random.Generator,
) -> Collected:
    """Read pairs of .npy files, one of members and one of non-members.

    Parameters
    ----------
    members, nonmembers : mappings to paths
        ``signal`` (the scores, losses, logits or probabilities) and, as needed, ``labels``, ``covariates``, ``texts``,
        ``units``, ``groups``, ``propensities``, ``references``; both mappings have the same keys.
    inclusion : one chance of inclusion for all records
    references : names of the columns of ``references``
    signal, attack, design, rng : as in :func:`from_table`
    """
    check_signal(signal, attack)
    data, member, fields = sides.read(members, nonmembers, signal)
    fields["design"], fields["inclusion"] = design, one_for_all(inclusion)
    fields["source"] = f"{Path(members['signal']).name}, {Path(nonmembers['signal']).name}"
    if signal == "score":
        loaded = Evidence(score=data["signal"], member=member, **fields)
        read = Collected(loaded, declared_kind.check_scores(loaded.scores))
    else:
        outputs = _outputs(signal, data["signal"], data.get("labels"))
        read = from_outputs(**outputs, member=member, attack=attack, rng=rng, **fields)
    read = read.beside({name: data[name] for name in ("propensities",) if name in data})
    return read if "references" not in data else _with_references(read, references, data["references"], signal=signal)


def unscored(
    path: str | Path | None,
    *,
    member: str | None = None,
    covariates: str | Sequence[str] = (),
    members: Mapping[str, str | Path] | None = None,
    nonmembers: Mapping[str, str | Path] | None = None,
    **columns: Any,
) -> Evidence:
    """Read what is known of members and non-members before any score is: zero-run evidence whose scores are all zero.

    Parameters
    ----------
    path : a table with a column of membership; or None, with files of each class
    member, covariates : names of columns; without covariates and text those that evidence is saved with
    members, nonmembers : mappings to paths, as in :func:`from_pairs`
    columns : ``text``, ``unit`` and ``categories``, as in :meth:`Evidence.load`
    """
    if path is None:
        data, inside, fields = sides.read(members or {}, nonmembers or {}, "covariates")
        if not {"covariates", "texts"} & set(data):
            raise InputError("covariates", "covariates or texts of both classes", "neither", "name their files")
        return Evidence(score=np.zeros(len(inside)), member=inside, design="zero-run", **fields)
    member = member or "member"
    if not covariates and not columns.get("text"):
        covariates = roles.saved("covariate", tables.column_names(path))
        if not covariates:
            raise InputError("covariates", "names of columns", "none", "name them (--covariates), or a text (--text)")
    for known in (covariates, columns.get("text")):
        known_before.check(known, {"membership": member})
    # The column of membership stands in for the score, so that all columns pass the door of evidence.
    rest = Evidence.load(path, score=member, member=member, covariates=covariates, design="zero-run", **columns)
    return rest.replace(score=np.zeros(rest.n))


def check_signal(signal: str, attack: Attack | None = None) -> None:
    """Refuse what is no kind of signal, and an attack on scores."""
    kinds = get_args(SignalKind)
    if signal == TOKENS:
        raise InputError("signal", f"one of {', '.join(kinds)}, for a table", signal, "name a .jsonl or .parquet file")
    if signal not in kinds:
        known = (*kinds, TOKENS)
        raise InputError("signal", f"one of {', '.join(known)}", repr(signal), nearest(signal, known) or "choose one")
    if signal == "score" and attack is not None:
        raise InputError(
            "attack", "no attack, for signal score", ", ".join(attack.names), "scores are already an attack's"
        )


def _outputs(signal: SignalKind, values: NDArray[Any], labels: NDArray[Any] | None) -> dict[str, Any]:
    if signal == "loss":
        if labels is not None:
            raise InputError("labels", "none, for losses", "labels", "leave them out, or pass logits")
        return {"losses": values}
    return {signal: values, "labels": labels}


def with_headline(collected: Collected, headline: Headline | None) -> Collected:
    """Return the collection with the headline that the user asked for, if any."""
    return collected if headline is None else replace(collected, headline=headline)


def _with_references(collected: Collected, names: Sequence[str], values: ArrayLike, *, signal: SignalKind) -> Collected:
    """Return the collection with scores of reference models (n,) or (n, k), by name, beside those of the target.

    They are losses, which are turned, unless the target's ``signal`` is a score.
    """
    evidence, columns = collected.evidence, np.asarray(values)
    columns = columns.reshape(-1, 1) if columns.ndim == 1 else columns
    if columns.ndim != 2 or columns.shape[1] != len(names):
        allowed = f"{len(names)} column{'s' * (len(names) > 1)}, for {' and '.join(names)}"
        raise InputError("references", allowed, f"shape {columns.shape}", "name one or two references, a column each")
    taken = next((name for name in names if name in evidence.scores), None)
    if taken is not None:
        raise InputError("reference.score", "a name that no audited score has", taken, "name it otherwise")
    read = Evidence(score=dict(zip(names, columns.T, strict=True)), member=evidence.member)  # the door: finite numbers
    turned = {name: score if signal == "score" else -score for name, score in read.scores.items()}
    return replace(collected, evidence=evidence.replace(score={**evidence.scores, **turned}))
