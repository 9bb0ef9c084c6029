"""Every option of a generator and of its training, and the privacy that is required."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Annotated, Literal

from miaudit.dp import accounting
from miaudit.dp.mechanism import GaussianNoise, Mechanism, dp_sgd
from miaudit.dp.verdict import UpperBound
from miaudit.errors import InputError, nearest
from miaudit.errors.options import Option, check_options
from miaudit.models.train_config import DEVICES
from miaudit.synthesis.graph import CausalGraph

_WHOLE = Option(ge=1, allowed="a whole number from 1 up", next_step="write it without a point")
Whole = Annotated[int, _WHOLE]
MaybeWhole = Annotated[int | None, _WHOLE]
# Relative, of the calibrated noise, which is never too small; a finer search takes longer than it gains.
_TOLERANCE = 0.005
_EXACT = 1e-6  # of a closed form, which takes no time
_DEVICE, _CPU = "cpu, cuda, cuda:N or auto", "cpu is the default"
Neighbours = Literal["add-or-remove", "replace-one"]


@dataclass(frozen=True)
class GeneratorConfig:
    """The network of a generator and how it is trained; all of it public, none of it read off the table.

    Attributes
    ----------
    latent : dimension of z
    hidden : width of the encoder and of the decoder of a large group
    layers : hidden layers of the encoder and of such a decoder; with the layer of outputs one more, as in the paper
    head : hidden units for each column of a small group (one whose columns need fewer than ``hidden`` together); small
        groups have one hidden layer
    decoder : how a group sees its parents and z: "concatenate", p(x | parents, z), or "product", the normalised
        product of p(x | parents) and p(x | z) for discrete columns, as printed for Pain and EEDI (erratum D8)
    encoder : how the encoder reads a record: "mask", all features side by side, what is missing as 0 beside a bit that
        says so, or "set", the sum of codes of the observed features, as in the partial VAE of Ma et al. (2019) that the
        paper names for EEDI
    embedding : with "set", the dimension of each feature's embedding and of its code; the paper's is 10
    encoder_reads : the groups that the encoder reads; None is all. The paper's EEDI encoder q(z | x2) reads the second
    without_latent : groups that do not see z, as the paper's p(x1) of EEDI
    empirical : groups without parents whose records are drawn from the table, as the paper's p(x1); they are private
        data without noise, so differential privacy refuses them
    draws_missing : whether synthetic records have missing values, drawn like the others; if not, they are complete
    epochs, batch : passes over the records, and records in a step (with privacy the expected number)
    records : public, nominal number of records, from which the number of steps follows; None is that of the privacy,
        or the length of the table. State it where trainings with and without a record are compared (erratum D9)
    learning_rate, optimiser : of "adam", or of "sgd" with momentum 0.9
    patience : epochs without improvement on the public table after which training stops; needs a public table
    at_once : models that are trained as one stack
    device : where they are trained: "cpu", "cuda", "cuda:1" for one of several GPUs, or "auto" for a GPU if there is
        one. Most tables are too small to gain from one, so the CPU is the default; not stored with a generator

    Raises
    ------
    InputError
        For an unknown choice or a number outside its range.

    Examples
    --------
    >>> GeneratorConfig(epochs=20).hidden
    64
    >>> GeneratorConfig(decoder="prodct")
    Traceback (most recent call last):
    miaudit.errors.InputError: decoder: expected 'concatenate' or 'product', received 'prodct'; did you mean product?
    """

    latent: Whole = 10
    hidden: Whole = 64
    layers: Whole = 2
    head: Whole = 8
    decoder: Annotated[Literal["concatenate", "product"], Option(allowed="'concatenate' or 'product'")] = "concatenate"
    encoder: Annotated[Literal["mask", "set"], Option(allowed="'mask' or 'set'")] = "mask"
    embedding: Whole = 10
    encoder_reads: Annotated[tuple[str, ...] | None, Option()] = None
    without_latent: Annotated[tuple[str, ...], Option()] = ()
    empirical: Annotated[tuple[str, ...], Option()] = ()
    draws_missing: Annotated[bool, Option(next_step="false is the default")] = False
    epochs: Whole = 100
    batch: Whole = 100
    records: MaybeWhole = None
    learning_rate: Annotated[float, Option(gt=0, next_step="0.001 is the default")] = 0.001
    optimiser: Annotated[Literal["adam", "sgd"], Option(allowed="'adam' or 'sgd'")] = "adam"
    patience: MaybeWhole = None
    at_once: Whole = 25
    device: Annotated[str, Option(allowed=_DEVICE, next_step=_CPU)] = field(default="cpu", repr=False, compare=False)

    def __post_init__(self) -> None:
        check_options(self)
        if not isinstance(self.device, str) or DEVICES.fullmatch(self.device) is None:
            raise InputError("device", _DEVICE, repr(self.device), _CPU)
        for name in ("encoder_reads", "without_latent", "empirical"):
            self._check_names(name)

    def steps(self, records: int) -> int:
        """Return the number of steps for a table of so many records, or for the nominal number if there is one."""
        return math.ceil(self.epochs * (self.records or records) / self.batch - 1e-9)

    def _check_names(self, name: str) -> None:
        names = getattr(self, name)
        if name == "encoder_reads" and names is None:
            return
        if isinstance(names, str) or not all(isinstance(item, str) for item in names):
            raise InputError(name, "names of groups", repr(names)[:60], "write a list of names")
        object.__setattr__(self, name, tuple(names))

    def check_graph(self, graph: CausalGraph) -> None:
        """Refuse names that are not groups of the graph, and groups that cannot do without z or parents."""
        for name in ("encoder_reads", "without_latent", "empirical"):
            for group in getattr(self, name) or ():
                if group not in graph.groups:
                    hint = nearest(group, graph.groups) or f"groups are {', '.join(list(graph.groups)[:8])}"
                    raise InputError(name, "groups of the graph", repr(group), hint)
        if self.encoder_reads == ():
            raise InputError("encoder_reads", "at least one group", "none", "leave it out to read all")
        for group in self.empirical:
            if graph.parents(group):
                received = f"{group}, whose parents are {', '.join(graph.parents(group))}"
                raise InputError(
                    "empirical", "groups without parents", received, "only causes can be drawn as they are"
                )


@dataclass(frozen=True)
class Privacy:
    """The differential privacy that is required of a generator; every number is public.

    Attributes
    ----------
    records : public, nominal number of records; the sampling rate, the steps and the normaliser follow from it and not
        from the length of the table (erratum D9); of tables only delta, the release's size and their cells do
    epsilon : the target, above 0; the noise is calibrated to it
    noise : instead of a target, the noise multiplier: standard deviation of the noise on the sum, divided by ``clip``;
        of tables that of all counts together, over their sensitivity: they are 1/noise-GDP
    delta : in (0, 1); None is 1 / records^1.1 (erratum D4)
    clip : the largest L2 norm of a record's gradient; from public or simulated data, never searched for on the table
        (:func:`miaudit.synthesis.generators.training.gradient_norms` gives the norms of public records); not of tables
    neighbours : tables that must not be distinguished: "add-or-remove" one record, or "replace-one", for tables that
        hide nothing but values (the number of records is then known); the same noise then gives a larger epsilon.
        Networks support the first alone

    Raises
    ------
    InputError
        For a number outside its range, or epsilon and noise both or neither.

    Examples
    --------
    >>> Privacy(records=5000, epsilon=1.0).resolved_delta  # doctest: +ELLIPSIS
    8.53...e-05
    """

    records: Whole
    epsilon: Annotated[float | None, Option(gt=0, next_step="1.0 is usual")] = None
    noise: Annotated[float | None, Option(gt=0, next_step="1.0 is usual")] = None
    delta: Annotated[float | None, Option(gt=0, lt=1, next_step="leave it out for 1 / records^1.1")] = None
    clip: Annotated[float, Option(gt=0, next_step="1.0 is the default")] = 1.0
    neighbours: Annotated[Neighbours, Option()] = "add-or-remove"

    def __post_init__(self) -> None:
        check_options(self, "privacy.")
        if (self.epsilon is None) == (self.noise is None):
            received = "neither" if self.epsilon is None else "both"
            hint = "a target epsilon has its noise calibrated"
            raise InputError("privacy", "epsilon or noise, one of them", received, hint)

    @property
    def resolved_delta(self) -> float:
        """The delta of the guarantee."""
        return float(self.records**-1.1) if self.delta is None else self.delta

    @property
    def changes(self) -> int:
        """How many cells of a table of counts differ by 1 between neighbours."""
        return 1 if self.neighbours == "add-or-remove" else 2

    @property
    def relative_noise(self) -> float:
        """Standard deviation of Gaussian noise, over the sensitivity of all that is released, which keeps epsilon."""
        if self.noise is not None:
            return float(self.noise)
        assert self.epsilon is not None  # noqa: S101 - one of the two
        epsilon, delta = float(self.epsilon), self.resolved_delta
        return accounting.calibrate_noise(GaussianNoise, epsilon=epsilon, delta=delta, tolerance=_EXACT)

    def resolved_noise(self, config: GeneratorConfig) -> float:
        """Return the noise multiplier for this training: the stated one, or the smallest that reaches epsilon.

        Raises
        ------
        InputError
            If the batch is larger than the nominal number of records, or no noise reaches epsilon.

        Examples
        --------
        >>> print(round(Privacy(records=1000, epsilon=0.5).resolved_noise(GeneratorConfig(epochs=5)), 2))
        3.76
        """
        self._check_batch(config)
        if self.noise is not None:
            return float(self.noise)
        assert self.epsilon is not None  # noqa: S101 - one of the two
        return _calibrated(self.records, config.batch, config.epochs, float(self.epsilon), self.resolved_delta)

    def mechanism(self, config: GeneratorConfig) -> Mechanism:
        """Return the training as an accountant sees it."""
        noise = self.resolved_noise(config)
        return dp_sgd(records=self.records, batch=config.batch, epochs=config.epochs, noise=noise)

    def _check_batch(self, config: GeneratorConfig) -> None:
        if self.neighbours != "add-or-remove":
            hint = (
                "take method tables, or leave neighbours out: sampling is accounted for with records added or removed"
            )
            raise InputError("privacy.neighbours", "'add-or-remove' for a network", repr(self.neighbours), hint)
        if config.records not in (None, self.records):
            hint = "state one nominal number"
            raise InputError("records", f"the {self.records:,} of privacy", f"{config.records:,}", hint)
        if config.batch > self.records:
            received = f"{config.batch:,}"
            hint = "lower batch: the sampling rate is batch / records"
            raise InputError("batch", f"at most the nominal {self.records:,} records", received, hint)


@lru_cache(maxsize=64)
def _calibrated(records: int, batch: int, epochs: int, epsilon: float, delta: float) -> float:
    """Return the least noise; a search of seconds, so a study over many models makes it once."""

    def family(noise: float) -> Mechanism:
        return dp_sgd(records=records, batch=batch, epochs=epochs, noise=noise)

    try:
        return accounting.calibrate_noise(family, epsilon=epsilon, delta=delta, tolerance=_TOLERANCE)
    except InputError as error:
        if error.argument != "family":
            raise
        allowed = f"one that some noise reaches at delta {delta:.3g} in {epochs:,} epochs"
        raise InputError("privacy.epsilon", allowed, f"{epsilon:g}", "take a larger epsilon or delta") from error


@lru_cache(maxsize=64)
def proved(mechanism: Mechanism, delta: float, neighbours: Neighbours = "add-or-remove") -> UpperBound:
    """Return what an accountant proves of a mechanism, which takes up to seconds, computed once."""
    bound = accounting.upper_bound(mechanism, delta=delta)
    return bound if neighbours == "add-or-remove" else replace(bound, mechanism=f"{mechanism}; one record replaced")
