"""Everything that decides the evidence of a campaign but the random numbers, and what of it goes together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit.attacks import registry, signals
from miaudit.attacks.likelihood import GaussianLira
from miaudit.collect.outputs import GAUSSIAN_LIRA, of_outputs
from miaudit.collect.records import Records
from miaudit.errors import InputError, nearest
from miaudit.models.given import GivenShadows
from miaudit.models.protocol import Target, Trainable, check_target, stands, trainable, traits_of
from miaudit.models.targets import Precomputed

# What the runs of a multi-run can tell without any further model: each record's own model says all that is plain, and
# the models of the other records never learnt it, which is what the offline attacks ask for.
MULTI_RUN = (
    *(GAUSSIAN_LIRA, *signals.BUILT_IN, "label_only"),
    *("lira_offline", "lira_offline_global", "lira_offline_two_sided"),
)
# What an attack of the registry may need in a multi-run: what each record's own model says of it.
_OF_OWN_MODEL = {"target", "logits", "labels", "probabilities", "confidence", "correct"}
_TOKEN_NAMES = {"token_loss": "loss"}
# Inputs that are of the audited records one by one: shadow models on other records cannot give them.
_PER_RECORD = {
    *("shadow", "included", "population_shadow", "shadow_correct"),
    *("shadow_probabilities", "shadow_confidence"),
}
# Inputs that pool the records of shadow models, and so need the class of each.
_POOLED = {"shadow_logits", "shadow_labels", "pooled_correct"}
# Inputs that only the outputs of a classifier give.
_SHADOW_OUTPUTS = {"shadow_logits", "shadow_correct", "pooled_correct", "shadow_probabilities", "shadow_confidence"}
_OUTPUTS = {"logits", "labels", "correct", "probabilities", "confidence", *_SHADOW_OUTPUTS}


@dataclass(frozen=True)
class Shadows:
    """Shadow models: how many (even; 0 for none), and how they and the audited model are trained; or given outputs.

    Attributes
    ----------
    models : shadow models beside the audited one
    population : records that are set aside, for attacks that compare with records which no model learned
        Default: a fifth, where an attack needs them.
    store, executor, workers, at_once : as of :func:`miaudit.models.shadow.train`
    seconds_per_fit : rate for the estimate of the cost; default: one fit is timed
    given : outputs of shadow models that were trained elsewhere; then ``models`` is 0
    vulnerability : whether to say which records leak (:mod:`miaudit.auditing.vulnerable_records`)
        True names the most vulnerable, which is row-level data, and refuses too few models. None says how many there
        are, where enough models are trained here. False does not.
    """

    models: int = 0
    population: int | None = None
    store: Path | None = None
    executor: str = "local"
    workers: int = 1
    at_once: int = 1
    seconds_per_fit: float | None = None
    given: GivenShadows | None = None
    vulnerability: bool | None = None

    @property
    def count(self) -> int:
        """Shadow models, wherever they were trained."""
        return self.models if self.given is None else self.given.outputs.models


@dataclass(frozen=True, eq=False)
class Campaign:
    """Everything that decides the evidence but the random numbers.

    Attributes
    ----------
    target : what is trained, or stands as it is
    records : with ``member``, or without: then memberships are drawn, a fair coin for each record, or unit
    design : how memberships came about; by default "one-run" where they are drawn here, else not declared
    attacks : names from :func:`known`; none for the default: online LiRA with shadow models, else the loss
    gaussian : options of ``gaussian_lira``
    shadows : Shadows
    audited : records of a multi-run, one model each; all other records are in every training
    columns : names of the columns, of a target whose outputs are scores already
    user_code : the code that came with the model, for the notes
    copies : array (n, k, ...) of changed copies of each record, for label-only attacks, optional
        Of a target whose outputs are given: its outputs on them (n, k, C), or the classes that it predicted (n, k).

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from miaudit.collect.run_campaign import collect
    >>> from miaudit.models.targets import SklearnTarget
    >>> rng = np.random.default_rng(0)
    >>> data = Records(rng.normal(size=(60, 4)), np.arange(60) % 2, None, {}, "noise")
    >>> collect(Campaign(SklearnTarget(DecisionTreeClassifier()), data), rng=rng).evidence
    Evidence(30 members, 30 non-members, score: loss, design: one-run)
    """

    target: Target
    records: Records
    design: str | None = None
    attacks: tuple[str, ...] = ()
    gaussian: GaussianLira = GaussianLira()  # noqa: RUF009 - a frozen record
    shadows: Shadows = Shadows()
    audited: int | None = None
    columns: tuple[str, ...] = ()
    user_code: str = ""
    copies: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        check_target(self.target)

    @property
    def stands(self) -> bool:
        """Whether the audited model stands as it is."""
        return stands(self.target)

    @property
    def draws(self) -> bool:
        """Whether memberships are drawn here."""
        return self.records.member is None

    @property
    def names(self) -> tuple[str, ...]:
        """The attacks, or the default ones; none for all columns of a target whose outputs are scores."""
        if self.attacks:
            return tuple(dict.fromkeys(_TOKEN_NAMES.get(name, name) for name in self.attacks))
        given = self.shadows.given
        if given is not None and not given.per_record(self.records.n, self.records.y):
            return ("shadow_classifier",)
        if self.shadows.count and self.design != "multi-run":
            return ("lira_online",)
        return () if self.target.kind == "signals" else ("loss",)

    def score_columns(self, width: int = 0) -> tuple[str, ...]:
        """Names of the columns of outputs that are scores already; for a width of 0 as far as they are known."""
        if self.target.kind != "signals":
            return ()
        known = traits_of(self.target).columns or self.columns
        if known or not width:
            return known
        return ("score",) if width == 1 else tuple(f"score_{i}" for i in range(width))

    def trainable(self) -> Trainable:
        """Return the target, if it can be trained."""
        return trainable(self.target)

    def labels(self) -> NDArray[Any]:
        """Labels (n,); zeros for a target that needs none."""
        if self.records.y is not None:
            return self.records.y
        if self.target.kind != "signals":
            raise InputError("data.y", "a column of labels", "none", "name it: losses and training need labels")
        return np.zeros(self.records.n, dtype=np.intp)

    def checked_design(self) -> str | None:
        """Return the design of the evidence, or say why memberships do not allow it."""
        if self.design == "multi-run" and self.shadows.count:
            allowed = "0 in a multi-run, whose models serve each other as shadow models"
            raise InputError("shadow.models", allowed, str(self.shadows.count), "leave it out, or choose one-run")
        if self.design != "multi-run" and self.audited is not None:
            received = f"{self.audited} beside design: {self.design or 'none'}"
            raise InputError("data.records", "a number of records in a multi-run only", received, "leave it out")
        if self.draws:
            if self.stands:
                received = f"none, for {self.target.name}, which stands as it is"
                raise InputError("data.member", "a column of who was trained on", received, "name it")
            if self.design == "zero-run":
                received = "none beside design: zero-run"
                hint = "name it, or leave the design out: one-run draws memberships"
                raise InputError("data.member", "a column of who was trained on", received, hint)
            return self.design or "one-run"
        if self.design == "multi-run":
            hint = "leave data.member out: memberships are drawn"
            raise InputError("evaluation.design", "one-run or zero-run beside data.member", "multi-run", hint)
        return self.design

    def check_attacks(self, design: str | None) -> None:
        """Refuse attacks that this target, design or number of shadow models cannot have."""
        self._check_rows()
        kind, own = self.target.kind, self.score_columns()
        for name in self.names:
            if name in own or (kind == "signals" and not own and name not in known()):
                continue
            if name not in known():
                names = (*own, *known())
                raise InputError(
                    "attack.type", f"one of {', '.join(names)}", repr(name), nearest(name, names) or "choose one"
                )
            attack = registry.ATTACKS.get(name)
            needs = set() if attack is None else set(attack.needs)
            if name == "reference_ratio" and kind == "signals":
                hint = "beside target.folder name the folder of a model that has not seen these texts"
                raise InputError("target.reference", "a reference model, for reference_ratio", "none", hint)
            if needs & {"log_p"}:
                raise InputError("attack.type", f"attacks on {kind}", name, "it needs texts and a language model")
            if design == "multi-run":
                _check_multi_run(name, needs, kind)
            elif any("shadow" in need or need in ("included", "pooled_correct") for need in needs):
                self._check_shadows(name, needs, 1 if attack is None else attack.least_models)
            outputs_needed = bool(needs & _OUTPUTS)
            if outputs_needed and kind != "logits" and not (kind == "predictions" and name == "loss"):
                raise InputError("attack.type", f"an attack on {kind}", name, "it needs the outputs of a classifier")
            if name == GAUSSIAN_LIRA and kind == "signals":
                raise InputError("attack.type", "an attack on outputs of one model", name, "choose the loss")
            if attack is not None and attack.statistic == "log_probability" and kind == "predictions":
                raise InputError("attack.type", "an attack on predictions", name, "LiRA works on squared errors")

    def _check_rows(self) -> None:
        """Refuse outputs of more or fewer records: which row belongs to which record could only be guessed."""
        x, n = self.records.x, self.records.n
        if not isinstance(self.target, Precomputed) or not np.array_equal(x, np.arange(n)):
            return
        rows = len(np.asarray(self.target.values))
        if rows != n:
            allowed, received = f"a row for each of the {n:,} records of the data", f"{rows:,} in {self.target.name}"
            hint = "keep the same records in both files, or name a column of row numbers as data.x"
            raise InputError("target.outputs_path", allowed, received, hint)

    def _check_shadows(self, name: str, needs: set[str], least: int) -> None:
        given = self.shadows.given
        if not self.shadows.count:
            raise InputError("shadow.models", f"shadow models, for {name}", "none", "add shadow: {models: 16}")
        if given is not None and needs & _POOLED:
            given.require_labels(self.records.n, self.records.y, name)
        if given is not None and needs & _PER_RECORD:
            given.require_same_records(self.records.n, self.records.y, name)
        if self.shadows.count < least:
            allowed, hint = f"{least} or more, for {name}", "16 and more are better"
            raise InputError("shadow.models", allowed, str(self.shadows.count), hint)
        if given is not None and given.signal and needs & _SHADOW_OUTPUTS:
            received = f"signals in {given.source}, for {name}"
            raise InputError("shadow.outputs_path", "outputs (M, n, C)", received, "save outputs, or use LiRA")
        if given is not None and self.copies is not None and needs & {"shadow_correct", "pooled_correct"}:
            received = f"{given.source}, which has none, for {name}"
            hint = "leave data.copies out, or use label_only, which needs no shadow models"
            raise InputError("shadow.outputs_path", "the shadow models' labels of data.copies", received, hint)


def known() -> tuple[str, ...]:
    """Return the attacks by name that a campaign can carry out now; those on tokens are columns of a language model.

    Examples
    --------
    >>> "lira_online" in known(), "my_attack" in known()
    (True, False)
    """
    return tuple(dict.fromkeys([*of_outputs(), *registry.ATTACKS]))


def _check_multi_run(name: str, needs: set[str], kind: str) -> None:
    own_model = bool(needs) and needs <= _OF_OWN_MODEL
    if name not in MULTI_RUN and not own_model:
        hint = "one-run takes shadow models"
        raise InputError("attack.type", f"one of {', '.join(MULTI_RUN)}", f"{name} in a multi-run", hint)
    if kind == "signals" and not (needs and needs <= {"target", "shadow", "included"}):
        raise InputError("attack.type", "a column of the target", f"{name} in a multi-run", "or lira_offline")
