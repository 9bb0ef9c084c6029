"""A target, records and attacks in, evidence out: memberships drawn, models trained, outputs scored.

All that is random is drawn before the first model is trained. The target model and its shadows are trained by one call,
so they share the store, the executor and whatever was finished before an interruption.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit import runs
from miaudit.attacks import lira, registry, signals
from miaudit.attacks.likelihood import GaussianLira
from miaudit.collect import ATTACKS, GAUSSIAN_LIRA, Attack, Collected, from_outputs
from miaudit.errors import InputError, nearest
from miaudit.evidence import Evidence
from miaudit.models import shadow
from miaudit.models.store import digest
from miaudit.models.targets import Target, Trainable
from miaudit.plan import Declared, Headline
from miaudit.records import Records

FloatArray = NDArray[np.float64]
Progress = Callable[[int, int], None]
# Attacks by name that a campaign can carry out; those on tokens are columns of a language model's outputs.
KNOWN = tuple(dict.fromkeys([*ATTACKS, *registry.ATTACKS]))
_POPULATION_SHARE = 5
_LEAST_FOR_LIRA = 4
_RUN_BYTES = 600  # of one run of a multi-run in its store
_TOKEN_NAMES = {"token_loss": "loss"}


@dataclass(frozen=True)
class Shadows:
    """Shadow models: how many (even; 0 for none), and how they and the audited model are trained.

    Attributes
    ----------
    models : shadow models beside the audited one
    population : records that are set aside, for attacks that compare with records which no model learned
        Default: a fifth, where an attack needs them.
    store, executor, workers, at_once : as of :func:`miaudit.models.shadow.train`
    seconds_per_fit : rate for the estimate of the cost; default: one fit is timed
    """

    models: int = 0
    population: int | None = None
    store: Path | None = None
    executor: str = "local"
    workers: int = 1
    at_once: int = 1
    seconds_per_fit: float | None = None


@dataclass(frozen=True, eq=False)
class Campaign:
    """Everything that decides the evidence but the random numbers.

    Attributes
    ----------
    target : what is trained, or stands as it is
    records : with ``member``, or without: then memberships are drawn here, a fair coin for each record
    design : how memberships came about; by default "one-run" where they are drawn here, else not declared
    attacks : names from :data:`KNOWN`; none for the default: online LiRA with shadow models, else the loss
    gaussian : options of ``gaussian_lira``
    shadows : Shadows
    audited : records of a multi-run, one model each; all other records are in every training
    columns : names of the columns, of a target whose outputs are scores already
    user_code : the code that came with the model, for the notes

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
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

    @property
    def stands(self) -> bool:
        """Whether the audited model stands as it is."""
        return not isinstance(self.target, Trainable) or getattr(self.target, "weights", None) is not None

    @property
    def draws(self) -> bool:
        """Whether memberships are drawn here."""
        return self.records.member is None

    @property
    def names(self) -> tuple[str, ...]:
        """The attacks, or the default ones; none for all columns of a target whose outputs are scores."""
        if self.attacks:
            return tuple(dict.fromkeys(_TOKEN_NAMES.get(name, name) for name in self.attacks))
        if self.shadows.models and self.design != "multi-run":
            return ("lira_online",)
        return () if self.target.kind == "signals" else ("loss",)


def collect(campaign: Campaign, *, rng: np.random.Generator, progress: Progress | None = None) -> Collected:
    """Draw what is to be drawn, train what is to be trained, and score the records. Runs the target's code.

    Parameters
    ----------
    rng : generator of memberships, seeds and attacks; equal generators give equal evidence
    progress : function of models that are done and of their number, optional

    Raises
    ------
    InputError
        For records, designs and attacks that do not go together: before anything is trained.
    ShadowFailedError, RunsFailedError
        If models failed; the others are kept where there is a store.
    """
    drawn = _Drawn.of(campaign, rng)
    if drawn.base.design == "multi-run":
        return _multi_run(campaign, drawn, progress)
    asked = _Asked.of(campaign, drawn, progress)
    return _scored(campaign, drawn, asked)


def cost(campaign: Campaign, *, rng: np.random.Generator) -> shadow.Cost | None:
    """Say beforehand what :func:`collect` with an equal generator will train; None where nothing is trained.

    Without a stated rate one model is trained for the time; nothing is written.
    """
    drawn = _Drawn.of(campaign, rng)
    options = campaign.shadows
    multiple = drawn.base.design == "multi-run"
    included = drawn.included
    if multiple:
        included = np.ones((len(drawn.rows), campaign.records.n), dtype=np.bool_)
        included[:, drawn.rows] = False
        included[np.arange(len(drawn.rows)), drawn.rows] = drawn.base.member
    if not len(included):
        return None
    found = shadow.estimate(
        _trainable(campaign),
        campaign.records.x,
        drawn.y,
        included,
        seed=drawn.seed,
        seconds_per_fit=options.seconds_per_fit,
        columns=len(_columns(campaign, 0)) or None,
        store=None if multiple else options.store,
        workers=options.workers,
        at_once=1 if multiple else options.at_once,
    )
    return replace(found, disk_bytes=_RUN_BYTES * found.fits) if multiple else found


# -- what is drawn beforehand ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Drawn:
    """What is fixed before the first training.

    Attributes
    ----------
    base : evidence of the audited records with a score of zeros: everything else is checked
    rows : array (a,), the audited records among all n
    population : array (m,), the records that are set aside
    included : array (models, n): the audited model first, unless it stands as it is
    y : array (n,)
    seed : of the models
    rng : of the attacks
    """

    base: Evidence
    rows: NDArray[np.intp]
    population: NDArray[np.intp]
    included: NDArray[np.bool_]
    y: NDArray[Any]
    seed: int
    rng: np.random.Generator

    @classmethod
    def of(cls, campaign: Campaign, rng: np.random.Generator) -> _Drawn:
        design = _design(campaign)
        _check_attacks(campaign, design)
        coins, halves, seeds, attacks = rng.spawn(4)
        records, n = campaign.records, campaign.records.n
        y = _labels(campaign)
        # The door of evidence: lengths, types and given memberships are checked before anything is trained.
        whole = Evidence(
            score=np.zeros(n),
            member=_given_member(records, n),
            design=design,
            source=f"{records.source}: {campaign.target.name}",
            **_fields(records, design),
        )
        if design == "multi-run":
            count = min(campaign.audited or n // 2, n - 1)
            rows = np.sort(coins.permutation(n)[:count])
            population = np.empty(0, dtype=np.intp)
        else:
            population = _population(campaign, whole, coins)
            rows = np.setdiff1d(np.arange(n), population)
        member = runs.memberships(len(rows), rng=coins) if campaign.draws else whole.member[rows]
        base = whole.replace(**_rows_of(whole, rows), member=member)
        included = np.zeros((0 if campaign.stands else 1, n), dtype=np.bool_)
        if not campaign.stands:
            included[0, rows] = member
        if campaign.shadows.models and design != "multi-run":
            others = np.zeros((campaign.shadows.models, n), dtype=np.bool_)
            others[:, rows] = shadow.inclusion(len(rows), campaign.shadows.models, rng=halves)
            included = np.concatenate([included, others])
        return cls(base, rows, population, included, y, int(seeds.integers(2**31)), attacks)


def _design(campaign: Campaign) -> str | None:
    if campaign.draws:
        if campaign.stands:
            received = f"none, for {campaign.target.name}, which stands as it is"
            raise InputError("data.member", "a column of who was trained on", received, "name it")
        if campaign.design == "zero-run":
            received = "none beside design: zero-run"
            hint = "name it, or leave the design out: one-run draws memberships"
            raise InputError("data.member", "a column of who was trained on", received, hint)
        return campaign.design or "one-run"
    if campaign.design == "multi-run":
        hint = "leave data.member out: memberships are drawn"
        raise InputError("evaluation.design", "one-run or zero-run beside data.member", "multi-run", hint)
    return campaign.design


def _check_attacks(campaign: Campaign, design: str | None) -> None:
    """Refuse attacks that this target, design or number of shadow models cannot have."""
    kind, own = campaign.target.kind, _columns(campaign, 0)
    for name in campaign.names:
        if name in own or (kind == "signals" and not own and name not in KNOWN):
            continue
        if name not in KNOWN:
            hint = nearest(name, (*own, *KNOWN)) or "choose one"
            raise InputError("attack.type", f"one of {', '.join((*own, *KNOWN))}", repr(name), hint)
        needs = set() if name not in registry.ATTACKS else set(registry.ATTACKS[name].needs)
        if needs & {"log_p"}:
            raise InputError("attack.type", f"attacks on {kind}", name, "it needs texts and a language model")
        by_shadow = any("shadow" in need or need == "included" for need in needs)
        if by_shadow and design == "multi-run":
            allowed = f"one of {', '.join(signals.SIGNALS)}"
            raise InputError("attack.type", allowed, f"{name} in a multi-run", "one-run takes shadow models")
        pooled = "pooled_correct" in needs
        if (by_shadow or pooled) and not campaign.shadows.models:
            raise InputError("shadow.models", f"shadow models, for {name}", "none", "add shadow: {models: 16}")
        if name.startswith("lira") and campaign.shadows.models < _LEAST_FOR_LIRA:
            allowed = f"{_LEAST_FOR_LIRA} or more, for {name}"
            hint = "two models of each side give a variance; 16 and more are better"
            raise InputError("shadow.models", allowed, str(campaign.shadows.models), hint)
        outputs_needed = bool(needs & {"logits", "labels", "correct", "shadow_correct", "pooled_correct"})
        if outputs_needed and kind != "logits" and not (kind == "predictions" and name == "loss"):
            raise InputError("attack.type", f"an attack on {kind}", name, "it needs the outputs of a classifier")
        if name == GAUSSIAN_LIRA and (kind == "signals" or design == "multi-run"):
            raise InputError("attack.type", "an attack on outputs of one model", name, "choose the loss")
        if name.startswith("rmia") and kind == "predictions":
            raise InputError("attack.type", "an attack on predictions", name, "LiRA works on squared errors")


def _labels(campaign: Campaign) -> NDArray[Any]:
    if campaign.records.y is not None:
        return campaign.records.y
    if campaign.target.kind != "signals":
        raise InputError("data.y", "a column of labels", "none", "name it: losses and training need labels")
    return np.zeros(campaign.records.n, dtype=np.intp)


def _given_member(records: Records, n: int) -> NDArray[Any]:
    """Memberships of the file; where none are given, some that pass the door until they are drawn."""
    return np.arange(n) % 2 == 0 if records.member is None else records.member


def _fields(records: Records, design: str | None) -> dict[str, Any]:
    """Fields of evidence; texts are covariates, so they belong to memberships that nobody drew."""
    return {k: v for k, v in records.fields.items() if k != "text" or design in (None, "zero-run")}


def _rows_of(whole: Evidence, rows: NDArray[np.intp]) -> dict[str, Any]:
    taken = {name: getattr(whole, name) for name in ("covariates", "text", "unit", "group")}
    return {"score": np.zeros(len(rows)), **{k: None if v is None else v[rows] for k, v in taken.items()}}


def _population(campaign: Campaign, whole: Evidence, rng: np.random.Generator) -> NDArray[np.intp]:
    """Records that no model learns, drawn at random; of known memberships only from non-members."""
    needed = any("population" in registry.ATTACKS[n].needs for n in campaign.names if n in registry.ATTACKS)
    asked = campaign.shadows.population
    if asked is None and not needed:
        return np.empty(0, dtype=np.intp)
    possible = np.arange(whole.n) if campaign.draws else np.flatnonzero(~whole.member)
    count = asked or len(possible) // _POPULATION_SHARE
    if not 0 < count <= len(possible) - 2:
        allowed = f"1 to {len(possible) - 2}, of records that no model learns"
        raise InputError("shadow.population", allowed, str(count), "set fewer aside")
    return np.sort(rng.permutation(possible)[:count])


# -- what the models say ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Asked:
    """Outputs (n, C) of the audited model, those of the shadow models, and what is to be said of them."""

    outputs: NDArray[np.float32]
    shadows: shadow.ShadowOutputs | None
    notes: tuple[str, ...]

    @classmethod
    def of(cls, campaign: Campaign, drawn: _Drawn, progress: Progress | None) -> _Asked:
        target, notes = campaign.target, tuple(getattr(campaign.target, "notes", ()))
        trained = None
        if len(drawn.included):
            options = campaign.shadows
            trained = shadow.train(
                _trainable(campaign),
                campaign.records.x,
                drawn.y,
                drawn.included,
                seed=drawn.seed,
                store=options.store,
                executor=options.executor,
                workers=options.workers,
                at_once=options.at_once,
                progress=None if progress is None else partial(_told, progress),
            )
        if not campaign.stands and trained is not None:
            outputs = trained.model(0)
            others = replace(trained, included=trained.included[1:], sources=trained.sources[1:])
            return cls(outputs, others if others.models else None, notes)
        if hasattr(target, "explained"):
            outputs, said = target.explained(campaign.records.x)
            return cls(outputs, trained, (*notes, *said))
        outputs = target.outputs(None, campaign.records.x)
        if len(outputs) != campaign.records.n:
            raise InputError("target", f"outputs of {campaign.records.n} records", str(len(outputs)), "check the files")
        return cls(outputs, trained, notes)


def _trainable(campaign: Campaign) -> Trainable:
    if not isinstance(campaign.target, Trainable):
        received = f"{campaign.target.name}, which stands as it is"
        hint = "set shadow.models: 0, or name an estimator or a factory with training"
        raise InputError("target", "one that can be trained, for shadow models", received, hint)
    return campaign.target


def _told(progress: Progress, state: shadow.Progress) -> None:
    progress(state.finished + state.failed, state.total)


def _columns(campaign: Campaign, width: int) -> tuple[str, ...]:
    """Names of the columns of outputs that are scores already; as far as they are known, for a width of 0."""
    if campaign.target.kind != "signals":
        return ()
    known: tuple[str, ...] = getattr(campaign.target, "columns", campaign.columns)
    if known or not width:
        return known
    return ("score",) if width == 1 else tuple(f"score_{i}" for i in range(width))


# -- from outputs to scores ------------------------------------------------------------------------------------------


def _scored(campaign: Campaign, drawn: _Drawn, asked: _Asked) -> Collected:
    """Carry out the attacks; a single one is the score of the audit, with the loss beside it."""
    columns = _columns(campaign, asked.outputs.shape[1])
    names = campaign.names or columns
    own = set(columns) or set(ATTACKS)
    by_outputs = [name for name in names if name in own]
    beyond = [name for name in names if name not in own]
    plain = by_outputs or [columns[0] if columns else "loss"]
    direct = _by_outputs(campaign, drawn, asked, plain, columns)
    inputs = _Inputs(campaign, drawn, asked, columns)
    scores = dict(direct.evidence.scores)
    if beyond:
        made = {name: inputs.score(name) for name in beyond}
        scores = {**{name: made[name] for name in beyond}, **scores}
    ordered = {name: scores[name] for name in (*names, *scores) if name in scores}
    headline: Headline | None = Declared(names[0]) if len(names) == 1 else None
    if names == (GAUSSIAN_LIRA,):
        headline = direct.headline  # the loss itself, where the two order records alike
    notes = [*asked.notes, *direct.notes, *inputs.notes(beyond)]
    if campaign.user_code:
        notes.append(f"Code that came with the model was run: {campaign.user_code}.")
    if len(drawn.population):
        notes.append(f"{len(drawn.population):,} records were set aside as the population; no model learned them.")
    return Collected(drawn.base.replace(score=ordered), tuple(notes), headline)


def _by_outputs(
    campaign: Campaign, drawn: _Drawn, asked: _Asked, names: list[str], columns: tuple[str, ...]
) -> Collected:
    """Scores that the audited model's outputs give by themselves."""
    outputs, y = np.asarray(asked.outputs)[drawn.rows], drawn.y[drawn.rows]
    if columns:
        scores = {name: outputs[:, columns.index(name)].astype(np.float64) for name in names}
        return Collected(drawn.base.replace(score=scores))
    attack = Attack(tuple(names), campaign.gaussian)
    options: dict[str, Any] = {"member": drawn.base.member, "unit": drawn.base.unit}
    if campaign.target.kind == "predictions":
        return from_outputs(losses=_squared_error(outputs, y), attack=attack, rng=drawn.rng, **options)
    return from_outputs(logits=outputs, labels=y, attack=attack, rng=drawn.rng, **options)


def _squared_error(outputs: NDArray[Any], y: NDArray[Any]) -> FloatArray:
    found: FloatArray = (outputs[:, 0].astype(np.float64) - y.astype(np.float64)) ** 2
    return found


@dataclass(frozen=True, eq=False)
class _Inputs:
    """What attacks of the registry may need, made when it is asked for."""

    campaign: Campaign
    drawn: _Drawn
    asked: _Asked
    columns: tuple[str, ...]

    def score(self, name: str) -> FloatArray:
        """Score the audited records (a,) by one attack."""
        attack = registry.get(name)
        inputs = {need: self._input(need, attack.statistic) for need in attack.needs}
        return attack.score(inputs, rng=self.drawn.rng)

    def notes(self, names: Iterable[str]) -> list[str]:
        """What is to be said of the shadow statistics."""
        if self.asked.shadows is None:
            return []
        notes = [f"{self.asked.shadows.models} shadow models, each trained on a random half of the audited records."]
        likelihoods = [name for name in names if name.startswith("lira")]
        if likelihoods:
            variance = "global" if all("global" in name for name in likelihoods) else "record"
            state = lira.health(
                self._input("shadow", "logit_confidence"),
                self._input("included", "logit_confidence"),
                variance=variance,  # type: ignore[arg-type]
            )
            notes += [f"LiRA: {state.note}."] if state.note else []
        return notes

    def _input(self, need: str, statistic: str) -> Any:
        rows, population, y = self.drawn.rows, self.drawn.population, self.drawn.y
        makers: Mapping[str, Callable[[], Any]] = {
            "target": lambda: self._statistic(self.asked.outputs, statistic)[rows],
            "shadow": lambda: self._shadow_statistic(statistic)[rows],
            "included": lambda: self._shadows.included.T[rows],
            "population": lambda: self._statistic(self.asked.outputs, statistic)[population],
            "population_shadow": lambda: self._shadow_statistic(statistic)[population],
            "features": lambda: self._features()[rows],
            "population_features": lambda: self._features()[population],
            "logits": lambda: np.asarray(self.asked.outputs)[rows],
            "labels": lambda: y[rows],
            "shadow_logits": lambda: np.concatenate([np.asarray(one)[rows] for one in self._each_shadow()]),
            "shadow_labels": lambda: np.tile(y[rows], self._shadows.models),
            "shadow_member": lambda: np.concatenate([one[rows] for one in self._shadows.included]),
            "correct": lambda: self._correct(self.asked.outputs)[rows],
            "shadow_correct": lambda: np.stack([self._correct(one)[rows] for one in self._each_shadow()], axis=1),
            "pooled_correct": lambda: np.concatenate([self._correct(one)[rows] for one in self._each_shadow()]),
            "pooled_member": lambda: np.concatenate([one[rows] for one in self._shadows.included]),
        }
        if need not in makers:
            raise InputError("attack.type", "an attack that a configuration can feed", need, "use it from Python")
        return makers[need]()

    @property
    def _shadows(self) -> shadow.ShadowOutputs:
        if self.asked.shadows is None:
            raise InputError("shadow.models", "shadow models", "none", "add shadow: {models: 16}")
        return self.asked.shadows

    def _each_shadow(self) -> Iterable[NDArray[np.float32]]:
        return (self._shadows.model(m) for m in range(self._shadows.models))

    def _statistic(self, outputs: NDArray[Any], statistic: str) -> FloatArray:
        """The statistic of all n records under one model; higher for members."""
        values = np.asarray(outputs)
        kind = self.campaign.target.kind
        if kind == "signals":
            return values[:, self.columns.index("loss") if "loss" in self.columns else 0].astype(np.float64)
        if kind == "predictions":
            return -_squared_error(values, self.drawn.y)
        name = "loss" if statistic == "log_probability" else "logit_confidence"
        return signals.member_scores(labels=self.drawn.y, logits=values, names=[name])[name]

    def _shadow_statistic(self, statistic: str) -> NDArray[np.float32]:
        return self._shadows.signal(lambda outputs, _: self._statistic(outputs, statistic))

    def _features(self) -> FloatArray:
        """What is known of a record without its membership: covariates, else the numbers that go into the model."""
        covariates = self.campaign.records.fields.get("covariates")
        values = covariates if covariates is not None else self.campaign.records.x
        if isinstance(values, list):
            raise InputError("data.covariates", "columns of numbers, for quantile regression", "none", "name them")
        return np.asarray(values, dtype=np.float64).reshape(len(values), -1)

    def _correct(self, outputs: NDArray[Any]) -> NDArray[np.bool_]:
        """Whether the model is right (n, 1): the record itself is the only copy."""
        right: NDArray[np.bool_] = np.asarray(outputs).argmax(axis=1) == self.drawn.y
        return right[:, None]


# -- one model for each record ---------------------------------------------------------------------------------------


def _multi_run(campaign: Campaign, drawn: _Drawn, progress: Progress | None) -> Collected:
    """Train one model for each audited record, with or without it, on all other records."""
    target, x, y, options = _trainable(campaign), campaign.records.x, drawn.y, campaign.shadows
    if options.executor != "local":
        raise InputError("shadow.executor", "local, for a multi-run", options.executor, "set workers instead")
    columns = _columns(campaign, 0)
    names = list(campaign.names or columns)
    task = _Task(target, x, y, tuple(names), columns)
    identity = digest([target.identity(), digest(x), digest(y)])
    found = runs.multi_run(
        task.fit,
        task.score,
        records=drawn.rows,
        base=np.setdiff1d(np.arange(campaign.records.n), drawn.rows),
        rng=np.random.default_rng(drawn.seed),
        workers=options.workers,
        store=options.store,
        key=identity if options.store is not None else "",
        progress=progress,
    )
    headline = Declared(names[0]) if len(names) == 1 else None
    notes = [f"{len(drawn.rows):,} models, one for each audited record."]
    if campaign.user_code:
        notes.append(f"Code that came with the model was run: {campaign.user_code}.")
    evidence = drawn.base.replace(score=dict(found.scores), member=found.member)
    return Collected(evidence, tuple(notes), headline)


@dataclass(frozen=True, eq=False)
class _Task:
    """The two functions of a multi-run; they travel to other processes."""

    target: Trainable
    x: Any
    y: NDArray[Any]
    names: tuple[str, ...]
    columns: tuple[str, ...]

    def fit(self, rows: NDArray[np.intp], rng: np.random.Generator) -> Any:
        return self.target.fit(self.x, self.y, rows, seed=int(rng.integers(2**31)))

    def score(self, fitted: Any, rows: NDArray[np.intp]) -> dict[str, FloatArray]:
        records = [self.x[row] for row in rows] if isinstance(self.x, list) else self.x[rows]
        outputs, y = self.target.outputs(fitted, records), self.y[rows]
        if self.columns:
            return {name: outputs[:, self.columns.index(name)].astype(np.float64) for name in self.names}
        if self.target.kind == "predictions":
            return {"loss": -_squared_error(outputs, y)}
        return signals.member_scores(labels=y, logits=outputs, names=self.names)
