"""Reference scores of zero-run evidence: what a model that membership cannot have touched says of the same records.

The same score of a reference model is a negative control: by the right correction it must show nothing. Or it is one
more covariate, which stands for what makes a record easy for any model. It is never both, and never an audited score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Annotated, Any, Literal

import numpy as np

from miaudit.arrays import FloatArray
from miaudit.errors import InputError, nearest
from miaudit.errors.options import Option
from miaudit.evidence import Evidence
from miaudit.findings.audit import ReferenceFindings
from miaudit.findings.metric import Metric
from miaudit.metrics.definition import amount, between

Use = Literal["test", "covariate"]
_APPLIES = ("scores", "reference files", "zero-run")
CONFIDENCE = 0.95  # of the test, two-sided (docs/zero_run_in_depth.md has how often it rejects)
CONDITIONS = (
    "the reference was trained on neither the members nor the non-members nor near-copies of them, before the first "
    "member was seen, and was not distilled from the audited model"
)
SHADOW_MODELS = "shadow_models"  # name of the score that a campaign makes by itself
UNUSED = "Reference scores are of use with the design zero-run; they were left out."
_ONE_AND_THE_SAME = 0.999  # rank correlation, of either sign, beyond which two scores are one


@dataclass(frozen=True)
class _Model:
    """Whose a reference score is, and what follows from it.

    Attributes
    ----------
    who : the subject of what a test shows
    conditions : what makes it a reference, and who says so
    refutes : what to make of a refuted correction, with {side}, which it saw then, {also} and {more}, where they matter
    no_covariate : why it is no covariate, as an error has it; None where it may be one
    """

    who: str
    conditions: str
    refutes: str
    no_covariate: tuple[str, str, str, str] | None = None


_ELSEWHERE = (
    "Either the covariates leave out something that moves such scores, or the reference saw {side}{also}. "
    "Next: add what is left out to the covariates{more}."
)
_SHADOWS = _Model(
    "A model that did not learn the record",
    "Each record was scored by a shadow model that did not learn it; these models learned random halves of all audited "
    "records, of members and non-members alike, and near-copies of the record may be among them.",
    "The covariates leave out something that moves such scores, or records have near-copies on their own side. "
    "Next: add what is left out to the covariates.",
    (
        *("reference.score", f"a covariate other than {SHADOW_MODELS}", SHADOW_MODELS),
        "use it as test: shadow models learned others of these records",
    ),
)
_TRAINED_ON_NEITHER = _Model("A model that never saw these records", f"Stated, not checked: {CONDITIONS}.", _ELSEWHERE)
_UNSTATED = _Model(
    "A reference model, of whose training nothing is stated,",
    f"A reference can be relied on only where this holds, which is not stated: {CONDITIONS}.",
    _ELSEWHERE,
    (
        *("reference.trained_on_neither", "true, for a covariate", "false"),
        "state it if it holds, else use the reference as test",
    ),
)


@dataclass(frozen=True)
class Reference:
    """Which scores of the evidence are of a reference model, what each is for, and what is stated of that model.

    Parameters
    ----------
    covariate : str, optional
        Name of the score that joins the covariates; only with ``trained_on_neither``.
    test : str, optional
        Name of the score whose corrected AUC must hold one half, or the correction is refuted.
    trained_on_neither : bool
        States that the reference was trained on neither the members nor the non-members nor near-copies of them, before
        the first member was seen, and was not distilled from the audited model. Nothing checks it. A reference that saw
        members hides a leak, one that saw the non-members invents one.

    Examples
    --------
    >>> Reference.named(["small", "older"], trained_on_neither=True)
    Reference(covariate='small', test='older', trained_on_neither=True)
    >>> Reference(covariate="public")
    Traceback (most recent call last):
    miaudit.errors.InputError: reference.trained_on_neither: expected true, for a covariate, received false; state it \
if it holds, else use the reference as test
    """

    covariate: str | None = None
    test: str | None = None
    trained_on_neither: bool = False

    def __post_init__(self) -> None:
        for name in (self.covariate, self.test):
            if name is not None and not (isinstance(name, str) and name):
                raise InputError("reference.score", "names of scores", repr(name)[:60], "name one or two")
        stated: Any = self.trained_on_neither
        if not isinstance(stated, bool):
            allowed = "true or false"
            raise InputError("reference.trained_on_neither", allowed, repr(stated)[:60], "write one of the two")
        if not self.names:
            raise InputError("reference.score", "a covariate, a test, or both", "neither", "name a score")
        if self.covariate == self.test:
            hint = "a covariate is balanced by construction: name a score of a second reference model"
            raise InputError("reference.score", "two different scores", f"{self.test} twice", hint)
        if self.covariate is not None and (refusal := _model_of(self, self.covariate).no_covariate):
            raise InputError(*refusal)

    @classmethod
    def named(
        cls,
        score: Annotated[
            str | Sequence[str],
            Option(
                "Column(s) with the score of a reference model that saw none of these records (its loss, unless the "
                "signal is score). Of two the first is a covariate and the second tests the correction.",
                applies=_APPLIES,
            ),
        ] = (),
        use: Annotated[
            Use,
            Option(
                "What one reference score is for: test (the correction must make its AUC one half) or covariate.",
                "name two scores to have both",
                applies=_APPLIES,
            ),
        ] = "test",
        trained_on_neither: Annotated[
            bool,
            Option(
                "State that the reference was trained on neither members nor non-members nor near-copies of them, "
                "before the first member was seen, and not distilled from the target. A covariate needs it.",
                applies=_APPLIES,
            ),
        ] = False,
    ) -> Reference:
        """Make the record of what files and the command line say.

        Raises
        ------
        InputError
            For no name, more than two, and what the record refuses.
        """
        names = (score,) if isinstance(score, str) else tuple(score)
        if not 1 <= len(names) <= 2:
            raise InputError("reference.score", "one or two names", str(len(names)), "a covariate, a test, or both")
        uses = (use,) if len(names) == 1 else ("covariate", "test")
        return cls(trained_on_neither=trained_on_neither, **dict(zip(uses, names, strict=True)))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the reference scores."""
        return tuple(name for name in (self.covariate, self.test) if name is not None)


def parted(evidence: Evidence, reference: Reference) -> tuple[Evidence, Mapping[str, FloatArray]]:
    """Take the reference scores out of the audited ones, and put one among the covariates.

    Returns
    -------
    evidence : without reference scores; of zero-run with the covariate as its last one
    scores : the reference scores (n,) by name, of zero-run evidence; none of an undeclared design

    Raises
    ------
    InputError
        For unknown names, randomised membership, and scores that are constant or copies of others.
    """
    if evidence.design not in ("zero-run", None):
        hint = "leave it out: membership was randomised, so nothing is corrected"
        raise InputError("reference", "none, unless the design is zero-run", str(evidence.design), hint)
    for name in reference.names:
        if name not in evidence.scores:
            hint = nearest(name, evidence.scores) or "name a score of the evidence"
            raise InputError("reference.score", f"one of {', '.join(evidence.scores)}", repr(name), hint)
    audited = {name: values for name, values in evidence.scores.items() if name not in reference.names}
    if not audited:
        raise InputError("reference.score", "a score beside it to audit", "no other score", "name the audited score")
    rest = evidence.replace(score=audited)
    if evidence.design is None:
        return rest, {}
    scores = {name: evidence.scores[name] for name in reference.names}
    _refuse_copies(audited, scores)
    return (rest if reference.covariate is None else _joined(rest, reference.covariate, scores)), scores


def judged(reference: Reference, raw: Mapping[str, Metric], corrected: Metric | None) -> ReferenceFindings:
    """Say what the reference scores show.

    Parameters
    ----------
    raw : AUC of each reference score by name, uncorrected
    corrected : AUC of the test by the correction of the audited scores; None where there is none
    """
    sentences, refuted = [], False
    if reference.test is not None and corrected is None:
        before = raw[reference.test].reading
        sentences.append(
            f"The reference score {reference.test} (raw AUC {before}) tests nothing: nothing was corrected."
        )
    elif reference.test is not None and corrected is not None:
        low, high = (0.5 if limit is None else limit for limit in (corrected.low, corrected.high))
        refuted = not low <= 0.5 <= high
        model = _model_of(reference, reference.test)
        shown = f"{amount('auc', corrected.value)} ({between('auc', low, high)}) by the same correction"
        verdict = _refuted(model, low, reference.covariate) if refuted else "This holds one half and refutes nothing."
        sentences.append(
            f"{model.who} would have shown an AUC of {shown} (reference score {reference.test}). {verdict}"
        )
    if reference.covariate is not None:
        alone = "" if reference.test is not None else "; no second reference tests it"
        before = raw[reference.covariate].reading
        sentences.append(f"The reference score {reference.covariate} is a covariate (raw AUC {before}){alone}.")
    return ReferenceFindings(
        covariate=reference.covariate,
        test=reference.test,
        trained_on_neither=reference.trained_on_neither,
        raw=tuple(raw[name] for name in reference.names),
        corrected=corrected,
        refuted=refuted,
        text=" ".join(sentences),
        conditions=_model_of(reference, reference.names[0]).conditions,  # of the covariate, which needs them
    )


def _model_of(reference: Reference, name: str) -> _Model:
    """Return whose the reference score of this name is."""
    if name == SHADOW_MODELS:
        return _SHADOWS
    return _TRAINED_ON_NEITHER if reference.trained_on_neither else _UNSTATED


def _refuted(model: _Model, low: float, covariate: str | None) -> str:
    also = f", or {covariate} saw either side" if covariate else ""
    more = "" if covariate else ", or name two references, of which the first becomes a covariate"
    why = model.refutes.format(side="members" if low > 0.5 else "non-members", also=also, more=more)
    return f"It should be one half: the correction is refuted. {why}"


def _refuse_copies(audited: Mapping[str, FloatArray], references: Mapping[str, FloatArray]) -> None:
    from scipy import stats  # noqa: PLC0415 - heavy, and only needed here

    ranks = {name: stats.rankdata(values) for name, values in {**audited, **references}.items()}
    for name in references:
        if np.ptp(ranks[name]) == 0:
            raise InputError("reference.score", "a score that varies", f"{name}, which is constant", "name another")
    pairs = [*((name, other) for name in references for other in audited), *combinations(references, 2)]
    for name, other in pairs:
        if np.ptp(ranks[other]) == 0:
            continue
        alike = float(np.corrcoef(ranks[name], ranks[other])[0, 1])
        if abs(alike) > _ONE_AND_THE_SAME:
            received = f"{name}, a copy of {other} (rank correlation {alike:.4f})"
            raise InputError("reference.score", "scores of another model", received, "score the records by another")


def _joined(evidence: Evidence, name: str, scores: Mapping[str, FloatArray]) -> Evidence:
    """Put a reference score behind the covariates, under its own name."""
    column, x = scores[name][:, None], evidence.covariates
    if x is None:
        return evidence.replace(covariates=column, covariate_names=(name,))
    names = evidence.covariate_names or tuple(map(str, range(x.shape[1])))
    if name in names:
        raise InputError("reference.score", "a name that no covariate has", name, "leave it out of the covariates")
    return evidence.replace(covariates=np.concatenate([x, column], axis=1), covariate_names=(*names, name))
