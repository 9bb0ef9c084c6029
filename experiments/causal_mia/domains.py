"""Real populations of two sides: members come from one, non-members from the other.

Beforehand, by construction, it is known of each whether the covariates suffice. They do where a coin decides on the
side with odds that are a function of covariates (``drawn``), or where all that the target sees is a covariate
(``all``): then only overlap, and what can be learned from so many records, are in the way. They do not where the score
depends on what sets the sides apart and no covariate shows it (``no``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from causal_mia import real_data
from causal_mia.real_data import log_likelihood
from scipy import special, stats
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from miaudit.metrics.roc import Roc

PLACEBO, REAL = "placebo", "real"


@dataclass(frozen=True)
class Population:
    """Records as the target sees them, which are of the members' side, and the covariates of some rows.

    Codes are positions of covariates that are categories; so many reference models learn records of the members' side
    that are neither audited nor learned by the target.
    """

    x: Any
    y: np.ndarray
    inside: np.ndarray
    seen: Callable[[np.ndarray], np.ndarray]
    target: Callable[[], Any]
    codes: tuple[int, ...] = ()
    references: int = 0
    score: Callable[[Any, Any, np.ndarray], np.ndarray] = log_likelihood


@dataclass(frozen=True)
class Sample:
    """Scores by name, memberships and covariates of the audited records; the AUC without a shift, and the truth."""

    scores: dict[str, np.ndarray]
    member: np.ndarray
    covariates: np.ndarray
    codes: tuple[int, ...]
    oracle: float
    truth: float


def drawn(of: Population, kind: str, n: int, rng: np.random.Generator) -> Sample:
    """At most n/2 records of each side, scored by a target that learned the members (real) or others (placebo).

    The oracle is the AUC against the non-members of the members' own side that nothing else needs: of the real kind it
    is the truth.
    """
    own, away = (rng.permutation(np.flatnonzero(of.inside == side)) for side in (True, False))
    shares = 2 + of.references + (kind == PLACEBO)
    half = min(n // 2, len(own) // shares)
    members, *others = np.split(own, half * np.arange(1, shares))
    undrifted = others.pop()
    learned = others.pop() if kind == PLACEBO else members
    rows = np.r_[members, away[: n // 2]]
    names = ("loss", "reference", "older")[: 1 + of.references]
    models = [of.target().fit(of.x[part], of.y[part]) for part in (learned, *others)]
    scores = {name: of.score(model, of.x[rows], of.y[rows]) for name, model in zip(names, models, strict=True)}
    same = np.r_[members, undrifted]
    oracle = Roc.of(of.score(models[0], of.x[same], of.y[same]), np.arange(len(same)) < half).auc
    truth = 0.5 if kind == PLACEBO else oracle
    return Sample(scores, np.arange(len(rows)) < half, of.seen(rows), of.codes, oracle, truth)


def coins(log_odds: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """On which side each record is: odds are a function of covariates, so that these suffice."""
    return rng.random(len(log_odds)) < special.expit(log_odds)


def z(column: np.ndarray) -> np.ndarray:
    return np.clip(stats.zscore(column), -2.0, 2.0)


def boosting() -> Any:
    return HistGradientBoostingClassifier(max_iter=120, random_state=0)


def network() -> Any:
    return make_pipeline(StandardScaler(), MLPClassifier((64,), max_iter=15, random_state=0))


def logistic(c: float) -> Any:
    return make_pipeline(StandardScaler(), LogisticRegression(C=c, max_iter=500))


def components_of(x: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Ten components of the audited rows, chosen by spread and never by membership."""
    return lambda rows: make_pipeline(StandardScaler(), PCA(10, random_state=0)).fit_transform(x[rows])


# -- sides that a coin decides on -----------------------------------------------------------------------------------


def adult(folder: Path, rng: np.random.Generator, *, by: str, only: tuple[int, ...] = ()) -> Population:
    """People of Adult; of the members' side three times as often when 35 to 55, or by the product of age and hours."""
    x, y, codes = real_data.adult(folder)
    prime = np.where((x[:, 0] >= 35) & (x[:, 0] <= 55), np.log(3), 0.0)
    inside = coins(prime - 0.5 if by == "age" else z(x[:, 0]) * z(x[:, 11]), rng)
    if only:
        return Population(x, y, inside, lambda rows: x[rows][:, list(only)], boosting, references=2)
    return Population(x, y, inside, np.column_stack([x, y]).__getitem__, boosting, codes)


def acs_coins(folder: Path, rng: np.random.Generator) -> Population:
    """People of 2018, by the product of hours of work and schooling."""
    x, y, years, full, names = real_data.acs(folder)
    own = np.flatnonzero(years == 2018)
    log_odds = z(full[own, names.index("Hours_Worked")]) * z(full[own, names.index("Education")])
    return Population(x[own], y[own], coins(log_odds, rng), full[own].__getitem__, boosting)


def mnist_ink(folder: Path, rng: np.random.Generator, n: int = 40_000) -> Population:
    """Digits by how much ink there is, and by which digit it is."""
    x, y = real_data.mnist(folder)
    rows = rng.permutation(len(x))[:n]
    x, y = x[rows].astype(np.float32) / 255.0, y[rows]
    ink = x.mean(axis=1)
    seen = np.column_stack([ink, y])
    return Population(x, y, coins(0.8 * z(ink) + np.linspace(-1, 1, 10)[y], rng), seen.__getitem__, network, (1,))


def cifar_light(folder: Path, rng: np.random.Generator) -> Population:
    """Pictures by the product of light and contrast."""
    x, y = real_data.cifar(folder)
    seen = np.column_stack([x.mean(axis=1), x.std(axis=1), y])
    return Population(x, y, coins(z(seen[:, 0]) * z(seen[:, 1]), rng), seen.__getitem__, network, (2,))


def digits_ink(_: Path, rng: np.random.Generator) -> Population:
    """Small digits (1,797) by ink."""
    x, y = load_digits(return_X_y=True)
    seen = np.column_stack([x.mean(axis=1), y])
    return Population(x, y, coins(0.8 * z(seen[:, 0]), rng), seen.__getitem__, partial(logistic, 1.0), (1,))


def cancer(_: Path, rng: np.random.Generator) -> Population:
    """Tumours (569) by radius; few of them."""
    x, y = load_breast_cancer(return_X_y=True)
    return Population(x, y, coins(0.8 * z(x[:, 0]), rng), x[:, :2].__getitem__, partial(logistic, 100.0))


def diabetes(_: Path, rng: np.random.Generator) -> Population:
    """Patients (442) by age and body mass; the score is minus the squared residual of a ridge."""
    x, y = load_diabetes(return_X_y=True)
    log_odds = 0.6 * z(x[:, 0]) + 0.6 * z(x[:, 2])

    def score(model: Any, rows: np.ndarray, told: np.ndarray) -> np.ndarray:
        return -((model.predict(rows) - told) ** 2)

    return Population(x, y, coins(log_odds, rng), x[:, [0, 2]].__getitem__, partial(Ridge, 1e-3), score=score)


def location(folder: Path, _: str, __: int, rng: np.random.Generator) -> Sample:
    """Published scores, memberships drawn; then non-members of rare kinds of people are left out more often."""
    score, member, label, visits = real_data.location(folder)
    kept = member | coins(1.2 * z(np.bincount(label)[label]), rng)
    truth = Roc.of(score, member).auc
    seen = np.column_stack([visits, label])[kept]
    return Sample({"loss": score[kept]}, member[kept], seen, (1,), truth, truth)


# -- natural domains ------------------------------------------------------------------------------------------------


def acs_years(folder: Path, _: np.random.Generator, *, year: int) -> Population:
    """People of 2018 and of another year; all that the target sees is a covariate."""
    x, y, years, full, _names = real_data.acs(folder)
    rows = np.flatnonzero((years == 2018) | (years == year))
    return Population(x[rows], y[rows], years[rows] == 2018, full[rows].__getitem__, boosting)


def acs_birth(folder: Path, _: np.random.Generator) -> Population:
    """People born in the country and elsewhere; origin, language and family are no covariates."""
    x, y, _years, full, names = real_data.acs(folder)
    plain = ("Age", "Sex", "Hours_Worked", "Education", "Disability", "Military", "Health_Cov")
    seen = full[:, [names.index(name) for name in plain]]
    return Population(x, y, x[:, names.index("Place_of_Birth")] == 1, seen.__getitem__, boosting)


def office(folder: Path, _: np.random.Generator, *, features: str, other: str, references: int = 0) -> Population:
    """Pictures from amazon and from another domain, by ten components."""
    x, y, domain = real_data.office(folder, features)
    rows = np.flatnonzero((domain == "amazon") | (domain == other))
    x, y, target = x[rows], y[rows], partial(logistic, 1e-3)
    return Population(x, y, domain[rows] == "amazon", components_of(x), target, references=references)


def mnist_noise(folder: Path, rng: np.random.Generator, n: int = 40_000) -> Population:
    """Members 10% noisy, non-members 90% (errata A9: sd 0.2 on [0, 1], drawn once an image), by a grey frame.

    The frame names the noisy pictures, and which of them are members is a coin.
    """
    x, y = real_data.mnist(folder)
    rows = rng.permutation(len(x))[:n]
    x, inside = x[rows].astype(np.float32) / 255.0, rng.random(n) < 0.5
    noisy = np.flatnonzero(rng.random(n) < np.where(inside, 0.1, 0.9))
    noise = rng.normal(0.0, 0.2, (len(noisy), x.shape[1])).astype(np.float32)
    x[noisy] = np.clip(x[noisy] + noise, 0.0, 1.0)
    frame = np.ones((28, 28), bool)
    frame[1:-1, 1:-1] = False
    grey = (x[:, frame.ravel()].mean(axis=1, keepdims=True) > 0.04).astype(float)
    return Population(x, y[rows], inside, grey.__getitem__, partial(MLPClassifier, (64,), max_iter=15, random_state=0))


def digits_writers(_: Path, __: np.random.Generator) -> Population:
    """Small digits of the first and of the last writers, by ten components."""
    x, y = load_digits(return_X_y=True)
    return Population(x, y, np.arange(len(x)) < len(x) // 2, components_of(x), partial(logistic, 1.0))


@dataclass
class Words:
    """A language model of single words: counts with one half added; a text's score is its mean log probability."""

    log_shares: np.ndarray = field(default_factory=lambda: np.empty(0))

    def fit(self, counts: Any, _: np.ndarray) -> Words:
        total = np.asarray(counts.sum(axis=0)).ravel() + 0.5
        self.log_shares = np.log(total / total.sum())
        return self

    @staticmethod
    def score(model: Words, counts: Any, _: np.ndarray) -> np.ndarray:
        return np.asarray(counts @ model.log_shares / np.asarray(counts.sum(axis=1)).ravel())


def wikimia(folder: Path, _: np.random.Generator) -> Population:
    """Texts of events before 2017 and after 2022, by ten components of their words."""
    texts, old = real_data.wikimia(folder)
    counts = CountVectorizer().fit_transform(texts).tocsr()

    def seen(rows: np.ndarray) -> np.ndarray:
        return TruncatedSVD(10, random_state=0).fit_transform(TfidfTransformer().fit_transform(counts[rows]))

    return Population(counts, np.zeros(len(old)), old, seen, Words, score=Words.score)


# -- the list -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shift:
    """How to draw a sample, why the covariates suffice (``drawn``, ``all``) or ``no``, and the files it needs."""

    draw: Callable[[Path, str, int, np.random.Generator], Sample]
    suffice: str
    needs: tuple[str, ...] = ()
    large: bool = False
    kinds: tuple[str, ...] = (PLACEBO, REAL)
    references: int = 0


def of(population: Callable[..., Population], **options: Any) -> Callable[..., Sample]:
    def draw(folder: Path, kind: str, n: int, rng: np.random.Generator) -> Sample:
        return drawn(population(folder, rng, **options), kind, n, rng)

    return draw


ADULT, ACS, MNIST = ("adult/adult.data.gz",), ("acs_ct_income/acs_ct_income.npz",), ("mnist/mnist.npz",)
CIFAR, WIKIMIA = ("cifar10/cifar10_12k.npz",), ("wikimia/wikimia_32.jsonl",)
SURF = ("office_caltech10/office_caltech10_surf.npz",)
GOOGLENET = ("office_caltech10/office_caltech10_googlenet1024.npz",)
LOCATION = ("location30/location30.npz", "mia_scores_location30/location30_mia_scores.npz")
FEW = (3, 10)  # of Adult: years of schooling, capital losses

SHIFTS = {
    "Adult, prime age": Shift(of(adult, by="age"), "drawn", ADULT, large=True),
    "Adult, age x hours": Shift(of(adult, by="age x hours"), "drawn", ADULT, large=True),
    "ACS, hours x schooling": Shift(of(acs_coins), "drawn", ACS, large=True),
    "MNIST, ink and digit": Shift(of(mnist_ink), "drawn", MNIST, large=True),
    "MNIST clean / noisy": Shift(of(mnist_noise), "drawn", MNIST, large=True),
    "CIFAR-10, light x contrast": Shift(of(cifar_light), "drawn", CIFAR),
    "Digits, ink": Shift(of(digits_ink), "drawn"),
    "Breast cancer, radius": Shift(of(cancer), "drawn"),
    "Diabetes, age and body mass": Shift(of(diabetes), "drawn"),
    "Location-30, rare kinds": Shift(location, "drawn", LOCATION, kinds=(REAL,)),
    "ACS 2018 / 2019": Shift(of(acs_years, year=2019), "all", ACS, large=True),
    "ACS 2018 / 2021": Shift(of(acs_years, year=2021), "all", ACS, large=True),
    "Adult, prime age, not seen": Shift(of(adult, by="age", only=FEW), "no", ADULT, references=2),
    "ACS, born here / elsewhere": Shift(of(acs_birth), "no", ACS, large=True),
    "Digits, writers": Shift(of(digits_writers), "no"),
    "SURF amazon / caltech10": Shift(
        of(office, features="surf", other="caltech10", references=1), "no", SURF, references=1
    ),
    "SURF amazon / webcam": Shift(of(office, features="surf", other="webcam"), "no", SURF),
    "GoogLeNet amazon / webcam": Shift(of(office, features="googlenet1024", other="webcam"), "no", GOOGLENET),
    "WikiMIA, before 2017 / after 2022": Shift(of(wikimia), "no", WIKIMIA),
}
