"""Everything that decides the evidence of a campaign, and what of it goes together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from miaudit.attacks import multi_label, registry, signals
from miaudit.attacks.likelihood import GaussianLira
from miaudit.auditing.reference import SHADOW_MODELS
from miaudit.collect.outputs import GAUSSIAN_LIRA, of_outputs
from miaudit.collect.records import Records
from miaudit.errors import InputError, nearest
from miaudit.io import frames, storage
from miaudit.io.sealed_coins import Coins
from miaudit.jobs import executor as execution
from miaudit.models.given import GivenShadows
from miaudit.models.protocol import Target, Trainable, Traits, check_target, stands, trainable, traits_of
from miaudit.models.shadow import placed
from miaudit.models.shadow_outputs import Signals
from miaudit.models.targets import Precomputed, SavedTorch, TorchTarget

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
# Inputs that are of changed copies of the records too.
_ON_COPIES = {"correct", "shadow_correct", "pooled_correct"}
_KINDS = {"multi-label": "several labels"}
_BY_OUTPUTS = {"predictions": ("loss",), "multi-label": tuple(multi_label.SIGNALS)}
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
    without : numbers of the models, from 1, whose fits could not be had: they are drawn, and left out
    vulnerability : whether to say which records leak (:mod:`miaudit.auditing.vulnerable_records`)
        True names the most vulnerable, which is row-level data, and refuses too few models. None says how many there
        are, where enough models are trained here. False does not.
    keep : "outputs" of each shadow model, or "signal": the one number a record (or two) that the attacks ask for
        Of classifiers with shadow models that are trained here; the evidence is the same.
    """

    models: int = 0
    population: int | None = None
    store: storage.Place | None = None
    executor: str | execution.Local | execution.Ray = "local"
    workers: int = 1
    at_once: int = 1
    seconds_per_fit: float | None = None
    given: GivenShadows | None = None
    vulnerability: bool | None = None
    without: tuple[int, ...] = ()
    keep: Literal["outputs", "signal"] = "outputs"

    @classmethod
    def run_by(cls, executor: str, address: str, folder: Path, each: Mapping[str, Any], **options: Any) -> Shadows:
        """Return those that fit where :func:`miaudit.jobs.executor.chosen` says, each given so much.

        Raises
        ------
        InputError
            For a value outside its range.
        """
        where = execution.chosen(executor, options.get("workers", 1), address=address, folder=folder, **each)
        return cls(executor=where, **options)

    def store_of(self, training: str) -> storage.Place | None:
        """Where the models of a further training are kept, by its name: beside the others."""
        return None if self.store is None else storage.below(self.store, training)

    @property
    def count(self) -> int:
        """Shadow models, wherever they were trained."""
        return self.models - len(self.without) if self.given is None else self.given.outputs.models


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
    reference : whether the first score of each record is wanted of a shadow model that did not learn it, too
    stability : how many more models are trained, each with one training record replaced, to measure the stability of
        training (:mod:`miaudit.collect.stability`); of one-run and zero-run
    runs : how many times the audited model is trained, with memberships drawn anew; its shadow models are of all runs
    coins : sealed coins (:mod:`miaudit.io.sealed_coins`) in the place of a draw here; of the records, or units, in
        their order, as many as there are, and for as many runs
    held_out : how many records beside the canaries no model learns, to measure on them what the canaries cost the model
        (:mod:`miaudit.collect.canary_cost`), with more trainings without any canary

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
    reference: bool = False
    stability: int = 0
    runs: int = 1
    coins: Coins | None = None
    held_out: int = 0

    def __post_init__(self) -> None:
        check_target(self.target)
        object.__setattr__(self, "records", self.records.numbered(traits_of(self.target).classes))
        if self.records.y is not None and isinstance(self.target, Traits):
            object.__setattr__(self, "target", self.target.labelled(self.records.y))
        if not self.stands:
            where = execution.chosen(self.shadows.executor, self.shadows.workers)
            object.__setattr__(self, "target", placed(self.target, where)[0])
        if isinstance(self.stability, bool) or not isinstance(self.stability, int) or self.stability < 0:
            raise InputError("stability", "a whole number from 0", repr(self.stability), "20 is a start, 0 for none")

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
        external = self.shadows.given
        if external is not None and not external.per_record(self.records.n, self.records.y):
            return ("shadow_classifier",)
        if self.shadows.count and self.design != "multi-run":
            return ("lira_online",)
        return () if self.target.kind == "signals" else ("loss",)

    @property
    def kept_signals(self) -> Signals | None:
        """What is kept in the place of outputs; None where outputs are."""
        if self.shadows.keep == "outputs":
            return None
        needed = [attack.statistic for attack in self._registered]
        statistics = ["loss" if name == "log_probability" else "logit_confidence" for name in needed]
        leaks = [] if self.shadows.vulnerability is False else ["logit_confidence"]
        own = [name for name in self.names if name in signals.SIGNALS]
        return Signals(tuple(dict.fromkeys([*statistics, *leaks])), tuple(dict.fromkeys(["loss", *own, *statistics])))

    @property
    def _registered(self) -> list[registry.Attack]:
        """The attacks of the registry that are no plain signals."""
        return [
            registry.ATTACKS[name] for name in self.names if name in registry.ATTACKS and name not in signals.SIGNALS
        ]

    def _check_keep(self, design: str | None) -> None:
        """Refuse signals in the place of outputs where something looks at whole outputs."""
        whole = {
            "a model that stands as it is": self.stands,
            "no shadow models that are trained here": not self.shadows.models,
            f"{self.target.kind}, which are few numbers": self.target.kind != "logits",
            "a multi-run, whose models keep their own record": design == "multi-run",
            "reference.score: shadow_models": self.reference,
            "stability": bool(self.stability),
            "several runs": self.runs > 1,
            "canaries.held_out": bool(self.held_out),
            "data.copies": self.copies is not None,
            f"{GAUSSIAN_LIRA}, which is fitted to outputs": GAUSSIAN_LIRA in self.names,
        }
        whole |= {f"{a.name}, which looks at whole outputs": bool(_OUTPUTS & {*a.needs}) for a in self._registered}
        beside = next((what for what, there in whole.items() if there), "")
        if beside and self.shadows.keep != "outputs":
            raise InputError("shadow.keep", "outputs", f"{self.shadows.keep} beside {beside}", "leave it out")

    @property
    def compares_models(self) -> bool:
        """Whether an attack of a multi-run compares a record's own model with those of the other records."""
        return any({*attack.needs} - _OF_OWN_MODEL for attack in self._registered)

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

    @property
    def inputs(self) -> Any:
        """What goes into a fit: the records, or their row numbers where the target knows them by these."""
        return np.arange(self.records.n) if traits_of(self.target).by_row else self.records.x

    def labels(self) -> NDArray[Any]:
        """Labels (n,), or (n, L) where each record has several; zeros for a target that needs none."""
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
        if self.records.canary is not None and (self.design or "one-run") != "one-run":
            hint = "leave evaluation.design out: a coin for each canary makes it one-run"
            raise InputError("canaries", "design one-run, beside canaries", str(self.design), hint)
        if self.records.canary is not None and not self.draws and self.design is None:
            hint = "add evaluation: {design: one-run}, if a fair coin decided for each canary"
            raise InputError("evaluation.design", "one-run, beside canaries and data.member", "none", hint)
        if self.design == "matched":
            self._check_candidates()
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

    def _check_candidates(self) -> None:
        """Refuse what the design matched cannot have: drawn memberships, shadow models, records without units."""
        if self.draws:
            hint = "name the column that is true for the true strings"
            raise InputError("data.member", "a column, with the design matched", "none", hint)
        if self.shadows.count:
            hint = "leave them out: decoys are in no training"
            raise InputError("shadow.models", "0, with the design matched", str(self.shadows.count), hint)
        if "unit" not in self.records.fields:
            hint = "name the column of the record that each candidate belongs to"
            raise InputError("data.unit", "a column, with the design matched", "none", hint)

    def check_attacks(self, design: str | None) -> None:
        """Refuse attacks that this target, design or number of shadow models cannot have."""
        self._check_records()
        self._check_rows()
        if self.reference:
            self._check_reference(design)
        self._check_stability(design)
        self._check_runs(design)
        self._check_coins(design)
        self._check_held_out()
        self._check_times()
        self._check_keep(design)
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
                hint = "it needs texts and a language model"
                if "min_k" in own:
                    hint = "write the tokens with --out tokens.jsonl, and name that file to miaudit audit"
                raise InputError("attack.type", f"attacks on {kind}", name, hint)
            if design == "multi-run":
                _check_multi_run(name, needs, kind)
            elif any("shadow" in need or need in ("included", "pooled_correct") for need in needs):
                self._check_shadows(name, needs, 1 if attack is None else attack.least_models)
            _check_outputs(name, needs, kind)
            if name == GAUSSIAN_LIRA and kind == "signals":
                raise InputError("attack.type", "an attack on outputs of one model", name, "choose the loss")
            if attack is not None and attack.statistic == "log_probability" and kind == "predictions":
                raise InputError("attack.type", "an attack on predictions", name, "LiRA works on squared errors")
        if self.reference and self.shadows.given is not None:
            self._check_given_reference(self.shadows.given, self.names[0])

    def _check_reference(self, design: str | None) -> None:
        if design != "zero-run":
            hint = "leave it out: a reference tests corrections, and randomised membership needs none"
            raise InputError("reference.score", "none, unless the design is zero-run", SHADOW_MODELS, hint)
        least = 1 + max(
            (registry.ATTACKS[name].least_models for name in self.names if name in registry.ATTACKS), default=1
        )
        if self.shadows.count < least:
            allowed, hint = f"{least} or more, of which one scores each record", "16 and more are better"
            raise InputError("shadow.models", allowed, str(self.shadows.count), hint)
        if self.shadows.given is not None:
            self.shadows.given.require_same_records(self.records.n, self.records.y, "a reference of shadow models")

    def _check_given_reference(self, given: GivenShadows, first: str) -> None:
        """Refuse a first score that the given shadow models did not say enough for."""
        attack, own = registry.ATTACKS.get(first), first in (*self.score_columns(), *of_outputs())
        needs = set() if attack is None else set(attack.needs)
        if given.signal:
            compared = "loss" if attack is not None and attack.statistic == "log_probability" else "logit_confidence"
            alike = self.target.kind == "signals" or given.signal == compared
            if first != given.signal if own or attack is None else needs & _OUTPUTS or not alike:
                allowed = f"outputs (M, n, C), for a reference of {first}"
                received = f"signals of {given.signal} in {given.source}"
                raise InputError("shadow.outputs_path", allowed, received, "save outputs, or leave the reference out")
        if self.copies is not None and needs & _ON_COPIES:
            allowed = f"the shadow models' labels of data.copies, for a reference of {first}"
            hint = "leave data.copies or the reference out"
            raise InputError("shadow.outputs_path", allowed, f"{given.source}, which has none", hint)

    def _check_stability(self, design: str | None) -> None:
        if not self.stability:
            return
        if self.stands:
            allowed, received = "a target that is trained here", f"{self.target.name}, which stands as it is"
            raise InputError("stability", allowed, received, "leave it out: it is measured by training again")
        if design not in ("one-run", "zero-run"):
            hint = "declare evaluation.design" if design is None else "leave it out: no records share a model there"
            raise InputError("stability", "design one-run or zero-run", design or "none", hint)
        if "unit" in self.records.fields:
            received = "units, whose records go in together"
            hint = "leave it out: what is measured, and the theorems, are about one record"
            raise InputError("stability", "records that are drawn one by one", received, hint)

    def _check_runs(self, design: str | None) -> None:
        if isinstance(self.runs, bool) or not isinstance(self.runs, int) or self.runs < 1:
            raise InputError("runs", "a whole number from 1", repr(self.runs), "1 trains the audited model once")
        if self.runs == 1:
            return
        received = f"{self.runs} runs"
        if self.stands or not self.draws or design != "one-run":
            allowed = "1, unless a model is trained here on records whose membership is drawn here (one-run)"
            raise InputError("runs", allowed, received, "leave data.member out, or audit one run")
        if self.stability:
            raise InputError("stability", "none, beside several runs", received, "measure it in a campaign of its own")
        lost = [number for number in self.shadows.without if number > self.shadows.models]
        if lost:
            hint = "train it again: every run that was started counts"
            raise InputError("runs", "the model of every run", f"none of {len(lost)} of {self.runs}", hint)

    def _check_coins(self, design: str | None) -> None:
        """Refuse sealed coins where memberships are not drawn here, or not of all records in their order."""
        if self.coins is None:
            return
        self.coins.fitting()
        if not self.draws or design != "one-run":
            received = "memberships of a file" if not self.draws else f"design: {design}"
            hint = "leave data.member out, or the coins"
            raise InputError("coins", "records whose membership is drawn here (one-run)", received, hint)
        if self.runs != self.coins.commitment.runs:
            received = f"{self.runs:,}"
            hint = "every run that was committed to counts"
            raise InputError("runs", f"{self.coins.commitment.runs:,}, as the coins' commitment says", received, hint)

    def _check_held_out(self) -> None:
        """Refuse to measure what canaries cost where there are none, or nothing is trained."""
        held, canary = self.held_out, self.records.canary
        if held == 0:
            return
        if isinstance(held, bool) or not isinstance(held, int) or held < 2:
            raise InputError(
                "canaries.held_out", "a whole number from 2", repr(held), "a tenth of the records is a start"
            )
        if canary is None or self.stands or not self.draws:
            allowed = "none, unless canaries are beside the records and a model is trained here on coins drawn here"
            raise InputError("canaries.held_out", allowed, str(held), "leave it out")
        others = int(np.count_nonzero(~canary))
        if 2 * held > others:
            received = f"{held:,} of {others:,}"
            hint = "set fewer: the others are trained on"
            raise InputError("canaries.held_out", "at most half of the records beside the canaries", received, hint)

    def _check_times(self) -> None:
        """Refuse records that are repeated where something counts on each being there once."""
        once = {"data.copies": self.copies is not None, "stability": bool(self.stability)}
        once["shadow.at_once above 1"] = self.shadows.at_once > 1
        beside = next((what for what, there in once.items() if there), "")
        if self.records.times is not None and not self.stands and beside:
            hint = "leave one of the two out"
            raise InputError(
                "data.times", "records that stand in a training once", f"several times, beside {beside}", hint
            )

    def _check_records(self) -> None:
        """Refuse frames and labels of text that the target could only guess the meaning of."""
        records, target = self.records, self.target
        if frames.is_frame(records.x) and isinstance(target, TorchTarget | SavedTorch):
            received = f"a data frame with the columns {', '.join(list(records.x.columns)[:8])}"
            hint = "code categories as 0, 1, ... and fill gaps, or audit a scikit-learn Pipeline"
            raise InputError("data.x", "columns of numbers, for a network", received, hint)
        self._check_labels()
        if not records.classes:
            return
        received = f"texts ({', '.join(records.classes[:4])}{', ...' if len(records.classes) > 4 else ''})"
        if target.kind == "predictions":
            raise InputError("data.y", "numbers, for a regression", received, "name another column, or a classifier")
        if self.stands and target.kind == "logits" and not traits_of(target).classes:
            hint = "number the classes in the order of the columns of its outputs"
            raise InputError("data.y", "classes 0, 1, ..., for a model as it is", received, hint)

    def _check_labels(self) -> None:
        """Refuse several columns of labels that are not 0 and 1, where they are no numbers of a regression."""
        y, kind = self.records.y, self.target.kind
        if y is None:
            return
        if np.ndim(y) > 2 or (np.ndim(y) == 2 and kind == "logits"):
            received = f"labels of shape {np.shape(y)}, for {self.target.name}, which tells classes apart"
            raise InputError("data.y", "one column of classes", received, "name one column")
        if kind == "multi-label":
            multi_label.checked_labels(y, "data.y")

    def _check_rows(self) -> None:
        """Refuse outputs of more or fewer records: which row belongs to which record could only be guessed."""
        x, n = self.records.x, self.records.n
        if traits_of(self.target).by_row and not self.stands and self.copies is not None:
            hint = "leave it out: the script gives outputs of the records themselves"
            raise InputError("data.copies", "none, for a command", "changed copies", hint)
        if not isinstance(self.target, Precomputed) or not np.array_equal(x, np.arange(n)):
            return
        rows = len(np.asarray(self.target.values))
        if rows != n:
            allowed, received = f"a row for each of the {n:,} records of the data", f"{rows:,} in {self.target.name}"
            hint = "keep the same records in both files, or name a column of row numbers as data.x"
            raise InputError("target.outputs_path", allowed, received, hint)

    def _check_shadows(self, name: str, needs: set[str], least: int) -> None:
        external = self.shadows.given
        if not self.shadows.count:
            raise InputError("shadow.models", f"shadow models, for {name}", "none", "add shadow: {models: 16}")
        if external is not None and needs & _POOLED:
            external.require_labels(self.records.n, self.records.y, name)
        if external is not None and needs & _PER_RECORD:
            external.require_same_records(self.records.n, self.records.y, name)
        if self.shadows.count < least:
            allowed, hint = f"{least} or more, for {name}", "16 and more are better"
            raise InputError("shadow.models", allowed, str(self.shadows.count), hint)
        if external is not None and external.signal and needs & _SHADOW_OUTPUTS:
            received = f"signals in {external.source}, for {name}"
            raise InputError("shadow.outputs_path", "outputs (M, n, C)", received, "save outputs, or use LiRA")
        if external is not None and self.copies is not None and needs & _ON_COPIES - {"correct"}:
            received = f"{external.source}, which has none, for {name}"
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


def _check_outputs(name: str, needs: set[str], kind: str) -> None:
    """Refuse an attack that needs the outputs of a classifier where there are others."""
    if not needs & _OUTPUTS or kind == "logits" or name in _BY_OUTPUTS.get(kind, ()):
        return
    hint = "it needs the outputs of a classifier"
    if kind == "multi-label":
        hint = f"it needs one class of each record; {', '.join(multi_label.SIGNALS)} and LiRA do not"
    raise InputError("attack.type", f"an attack on {_KINDS.get(kind, kind)}", name, hint)


def _check_multi_run(name: str, needs: set[str], kind: str) -> None:
    own_model = bool(needs) and needs <= _OF_OWN_MODEL
    if name not in MULTI_RUN and not own_model:
        hint = "one-run takes shadow models"
        raise InputError("attack.type", f"one of {', '.join(MULTI_RUN)}", f"{name} in a multi-run", hint)
    if kind == "signals" and not (needs and needs <= {"target", "shadow", "included"}):
        raise InputError("attack.type", "a column of the target", f"{name} in a multi-run", "or lira_offline")
