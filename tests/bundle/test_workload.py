"""A stranger's plan keeps no machine busy: it is refused by an estimate, or stopped when its time is up."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bundle.test_attacks import lying
from bundle.test_bundle import made
from miaudit.auditing.plan import Bounds
from miaudit.bundle import read, workload, written_plan
from miaudit.bundle.verify import verify
from miaudit.dp.mechanism import Composed, GaussianNoise, PoissonSubsampled, Repeated
from miaudit.errors import InputError, MiauditError

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(made(tmp_path_factory.mktemp("honest"))[0])


def forged(path: Path, into: Path, **changes: Any) -> Path:
    """The bundle with another plan, as a careful forger lists it."""

    def edit(about: dict[str, Any]) -> None:
        about["plan"] |= {key: written_plan.encode(value) for key, value in changes.items()}

    return Path(lying(shutil.copy(path, into / "forged.zip"), about=edit))


def test_an_estimate_rises_with_all_that_makes_an_audit_long(honest: Path) -> None:
    bundle = read(honest)
    plain = workload.seconds(bundle)
    assert plain < workload.LONGEST
    more = {"n_bootstrap": 100_000}, {"fpr_targets": tuple(k / 1000 for k in range(1, 101)), "n_bootstrap": 5000}
    for changes in more:
        assert workload.seconds(dataclasses.replace(bundle, plan=dataclasses.replace(bundle.plan, **changes))) > plain
    workload.require_short(bundle, 60.0)
    with pytest.raises(InputError, match=r"add --longest \d+ to allow it, or --longest 0"):
        workload.require_short(bundle, plain / 2)
    workload.require_short(bundle, 0.0)


@pytest.mark.parametrize("command", [("verify",), ("challenge", "--scores", "s.npy")])
def test_replicates_times_targets_are_refused_before_they_start(
    command: tuple[str, ...], honest: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = forged(honest, tmp_path, n_bootstrap=100_000, fpr_targets=tuple(k / 1000 for k in range(1, 101)))
    code, out, err = run(command[0], str(path), *command[1:])
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert "bundle: expected an audit of at most 60 seconds, received about" in err
    assert "100,000 bootstrap replicates, 100 FPR targets" in err
    assert "--longest" in err


@pytest.mark.long
def test_python_can_state_how_long_it_may_take(honest: Path, tmp_path: Path) -> None:
    long = forged(honest, tmp_path, n_bootstrap=100_000, fpr_targets=tuple(k / 1000 for k in range(1, 101)))
    with pytest.raises(InputError, match="bundle: expected an audit of at most 60 seconds"):
        verify(long, longest=60.0)
    assert verify(honest, longest=60.0) == verify(honest)


@pytest.mark.parametrize("parts", [pytest.param(30, marks=pytest.mark.thorough), 300])
def test_a_mechanism_of_hundreds_of_parts_ends(parts: int, honest: Path, tmp_path: Path, run: Run) -> None:
    steps = [Repeated(PoissonSubsampled(GaussianNoise(1 + k / 1000), 0.01), 10**7) for k in range(parts)]
    code, _, err = run("verify", str(forged(honest, tmp_path, bounds=Bounds(mechanism=Composed(tuple(steps))))))
    assert code == (1 if parts > 100 else 3)  # its findings are those of the honest plan
    assert ("at most 100 parts" in err) == (parts > 100), err


def test_what_takes_too_long_is_stopped() -> None:
    before = signal.getsignal(signal.SIGPROF)
    with (
        pytest.raises(MiauditError, match=r"stopped after 0\.05 seconds of processor time; add --longest 0\.5"),
        workload.at_most(0.05),
    ):
        while True:
            with contextlib.suppress(Exception):  # whatever catches errors on the way does not catch this one
                sum(range(1000))
    assert signal.getsignal(signal.SIGPROF) is before
    with workload.at_most(0.0):
        pass
    with pytest.raises(KeyError), workload.at_most(10.0):
        raise KeyError
