"""Mechanisms as data, in enough detail for an accountant.

Noise is stated in units of the sensitivity, the most by which adding or removing one record changes the sum that is
released; for DP-SGD that is the clipping norm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from miaudit.errors import InputError, nearest
from miaudit.errors.checks import positive, whole

__all__ = [
    "Composed",
    "GaussianNoise",
    "LaplaceNoise",
    "Mechanism",
    "PoissonSubsampled",
    "Repeated",
    "Selection",
    "dp_sgd",
    "from_mapping",
]

_DEEPEST = 20
_HINT = "nothing is private without noise and records"


@dataclass(frozen=True)
class GaussianNoise:
    """Normal noise whose standard deviation is ``noise`` sensitivities (L2): 1/noise-GDP."""

    noise: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise", positive("noise", self.noise, _HINT))

    def __str__(self) -> str:
        return f"Gaussian noise (standard deviation {self.noise:g} times what one record can change)"


@dataclass(frozen=True)
class LaplaceNoise:
    """Laplace noise whose scale is ``noise`` sensitivities (L1): pure (1/noise)-DP."""

    noise: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise", positive("noise", self.noise, _HINT))

    def __str__(self) -> str:
        return f"Laplace noise (scale {self.noise:g} times what one record can change)"


@dataclass(frozen=True)
class Selection:
    """One of several candidates, chosen by noisy scores: the exponential mechanism, or the largest of Gumbel noise.

    The privacy losses of all answers lie within ``epsilon`` of each other ("bounded range", Dong, Durfee and Rogers,
    "Optimal differential privacy composition for exponential mechanisms", 2020): of scores that one record changes by
    at most D, the answer i has a probability in proportion to exp(epsilon score_i / (2 D)).
    """

    epsilon: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon, _HINT))

    @property
    def mu(self) -> float:
        """The least mu at which it is mu-GDP: 2 Phi^-1 of the logistic function of epsilon / 2.

        Losses within epsilon of each other are at worst those of two answers, t and t - epsilon; the worst t is
        epsilon / 2, a randomised response of epsilon / 2.
        """
        from scipy.special import log_expit, ndtri_exp  # noqa: PLC0415 - loads when a selection is accounted for

        return float(-2 * ndtri_exp(log_expit(-self.epsilon / 2)))  # by the lower tail, which keeps its digits

    @classmethod
    def of_mu(cls, mu: float) -> Selection:
        """Return the selection that is as private as a Gaussian mechanism of a mu.

        Examples
        --------
        >>> round(Selection.of_mu(0.1).mu, 12)
        0.1
        """
        from scipy.special import log_ndtr  # noqa: PLC0415

        return cls(float(2 * (log_ndtr(mu / 2) - log_ndtr(-mu / 2))))

    def __str__(self) -> str:
        return f"one private choice with epsilon {self.epsilon:g}"


@dataclass(frozen=True)
class PoissonSubsampled:
    """A mechanism that sees each record with probability ``rate``, independently of the others."""

    mechanism: GaussianNoise | LaplaceNoise
    rate: float

    def __post_init__(self) -> None:
        _check_noise(self.mechanism)
        rate = positive("rate", self.rate, _HINT)
        if rate > 1:
            raise InputError("rate", "a probability in (0, 1]", f"{rate:g}", "batch size divided by records")
        object.__setattr__(self, "rate", rate)

    def __str__(self) -> str:
        return f"{self.mechanism}, each record taken with probability {100 * self.rate:.6g}%"


@dataclass(frozen=True)
class Composed:
    """Several mechanisms on the same records, each free to depend on what the earlier ones released."""

    parts: tuple[Mechanism, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(check_mechanism(part) for part in self.parts))
        if not self.parts:
            raise InputError("parts", "at least one mechanism", "none", "list what was released")

    def __str__(self) -> str:
        return ", and then ".join(map(str, self.parts))


@dataclass(frozen=True)
class Repeated:
    """One mechanism ``times`` times on the same records."""

    mechanism: Mechanism
    times: int

    def __post_init__(self) -> None:
        check_mechanism(self.mechanism)
        object.__setattr__(self, "times", whole("times", self.times, "round it as the training did"))

    def __str__(self) -> str:
        several = isinstance(self.mechanism, Composed)
        return f"{self.times:,} times: ({self.mechanism})" if several else f"{self.times:,} times: {self.mechanism}"


Mechanism = GaussianNoise | LaplaceNoise | Selection | PoissonSubsampled | Composed | Repeated


def dp_sgd(
    *,
    records: int,
    batch: int,
    noise: float,
    steps: int | None = None,
    epochs: float | None = None,
    sampling: str = "poisson",
) -> Mechanism:
    """Describe DP-SGD: noise on the sum of clipped gradients of a Poisson sample, once for each step.

    Parameters
    ----------
    records : number of training records; with data-dependent sizes a public nominal number (erratum D9)
    batch : expected batch size; the sampling rate is batch / records
    noise : standard deviation of the noise on the **sum**, divided by the clipping norm ("noise multiplier")
    steps, epochs : one of them; steps = ceil(epochs records / batch)
    sampling : "poisson". Shuffled batches are refused: the accountant's amplification is not proved for them

    Examples
    --------
    >>> print(dp_sgd(records=2000, batch=128, noise=3, epochs=75))  # doctest: +NORMALIZE_WHITESPACE
    1,172 times: Gaussian noise (standard deviation 3 times what one record can change), each record taken with
    probability 6.4%
    """
    n, size = (
        whole("records", records, "round it as the training did"),
        whole("batch", batch, "round it as the training did"),
    )
    if size > n:
        raise InputError("batch", f"at most the {n:,} records", f"{size:,}", "the sampling rate is batch / records")
    if sampling != "poisson":
        hint = (
            "for shuffled batches give up the amplification by sampling: kind repeated, times the number of epochs,"
            " of gaussian noise"
        )
        raise InputError("sampling", "'poisson'", repr(sampling), hint)
    if (steps is None) == (epochs is None):
        received = "neither" if steps is None else "both"
        raise InputError("steps", "steps or epochs, one of them", received, "steps = epochs * records / batch")
    if epochs is not None:
        steps = math.ceil(positive("epochs", epochs, _HINT) * n / size - 1e-9)
    step: Mechanism = GaussianNoise(noise)
    if size < n:
        step = PoissonSubsampled(GaussianNoise(noise), size / n)
    return Repeated(step, whole("steps", steps, "round it as the training did"))


def from_mapping(description: Mapping[str, Any]) -> Mechanism:
    """Read a mechanism from a mapping, as YAML or JSON holds it; the key ``kind`` says which.

    gaussian and laplace {noise}; selection {epsilon}; subsampled {mechanism, rate}; repeated {mechanism, times};
    composed {parts}; dp-sgd {records, batch, noise, steps or epochs, sampling}.

    Raises
    ------
    InputError
        For an unknown kind or key, a missing one, a value out of range, or mechanisms more than 20 deep; the argument
        is the path.

    Examples
    --------
    >>> print(from_mapping({"kind": "repeated", "times": 3, "mechanism": {"kind": "laplace", "noise": 2}}))
    3 times: Laplace noise (scale 2 times what one record can change)
    """
    depth, level = 0, [description]
    while level := [part for x in level for part in _parts(x)]:
        depth += 1
        if depth > 2 * _DEEPEST:  # deeper ones would exhaust the stack
            allowed = f"at most {_DEEPEST} mechanisms inside each other"
            raise InputError("mechanism", allowed, "more", "composed mechanisms stand beside each other")
    return _read("mechanism", description)


def _parts(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []


def described(mechanism: Mechanism | Mapping[str, Any]) -> Mechanism:
    """Return a mechanism that can be accounted for, from itself or the mapping that :func:`from_mapping` reads."""
    return from_mapping(mechanism) if isinstance(mechanism, Mapping) else check_mechanism(mechanism)


def check_mechanism(mechanism: object) -> Mechanism:
    """Return a mechanism that can be accounted for; refuse everything else."""
    if not isinstance(mechanism, Mechanism):
        allowed = "GaussianNoise, LaplaceNoise, Selection, PoissonSubsampled, Composed, Repeated or dp_sgd(...)"
        hint = "a mechanism that is not described cannot be accounted for"
        raise InputError("mechanism", allowed, type(mechanism).__name__, hint)
    return mechanism


def _check_noise(mechanism: object) -> None:
    if not isinstance(mechanism, GaussianNoise | LaplaceNoise):
        hint = "sample before the noise, repeat and compose afterwards"
        raise InputError("mechanism", "GaussianNoise or LaplaceNoise", type(mechanism).__name__, hint)


_KINDS: dict[str, tuple[Callable[..., Mechanism], tuple[str, ...], tuple[str, ...]]] = {
    # kind: what makes it, required keys, optional ones
    "gaussian": (GaussianNoise, ("noise",), ()),
    "laplace": (LaplaceNoise, ("noise",), ()),
    "selection": (Selection, ("epsilon",), ()),
    "subsampled": (PoissonSubsampled, ("mechanism", "rate"), ()),
    "repeated": (Repeated, ("mechanism", "times"), ()),
    "composed": (Composed, ("parts",), ()),
    "dp-sgd": (dp_sgd, ("records", "batch", "noise"), ("steps", "epochs", "sampling")),
}


def _read(path: str, description: object) -> Mechanism:
    if not isinstance(description, Mapping):
        raise InputError(path, "a mapping with the key 'kind'", type(description).__name__, "write kind: dp-sgd")
    kind = description.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        hint = nearest(str(kind), _KINDS) or "other mechanisms cannot be accounted for"
        raise InputError(f"{path}.kind", f"one of {', '.join(_KINDS)}", repr(kind)[:60], hint)
    make, required, optional = _KINDS[kind]
    values = {str(key): value for key, value in description.items() if key != "kind"}
    for name in values:
        if name not in required + optional:
            allowed = f"a key of {kind} ({', '.join(required + optional)})"
            hint = nearest(name, required + optional) or "remove it"
            raise InputError(f"{path}.{name}", allowed, "an unknown one", hint)
    for name in required:
        if name not in values:
            raise InputError(f"{path}.{name}", "a value", "none", f"{kind} needs {', '.join(required)}")
    if "mechanism" in values:
        values["mechanism"] = _read(f"{path}.mechanism", values["mechanism"])
    if "parts" in values:
        parts = values["parts"]
        if not isinstance(parts, list | tuple):
            raise InputError(f"{path}.parts", "a list of mechanisms", type(parts).__name__, "list what was released")
        values["parts"] = tuple(_read(f"{path}.parts[{i}]", part) for i, part in enumerate(parts))
    try:
        return make(**values)
    except InputError as error:
        raise InputError(f"{path}.{error.argument}", error.allowed, error.received, error.next_step) from None
