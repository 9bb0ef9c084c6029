"""Options that nothing would use are refused or said."""

from pathlib import Path

import pytest

from command import test_silent_acceptances
from command.test_silent_acceptances import DESIGN, Run, audit, one_line

place = test_silent_acceptances.place


PAIR = ("audit", "--members", "in.npy", "--nonmembers", "out.npy", "--json")


SYNTHETIC = ("audit", "--synthetic", "table.csv", "--members", "table.csv", "--nonmembers", "table.csv", "--json")


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "option"),
    [
        (audit("t.npz", "--labels", "label"), "labels"),
        (audit("t.npz", "--member-labels", "in.npy"), "member-labels"),
        (audit("t.npz", "--records", "9"), "records"),
        (audit("t.npz", "--secret", "x"), "secret"),
        (audit("t.npz", *DESIGN, "--guesses", "9"), "guesses"),
        (audit("t.npz", *DESIGN, "--delta", "0.1"), "delta"),
        (audit("t.npz", *DESIGN, "--margin", "0.1"), "margin"),
        (audit("t.npz", "--categories", "x"), "categories"),
        (audit("t.npz", "--design", "zero-run", "--categories", "x"), "categories"),
        (audit("t.npz", "--design", "zero-run", "--components", "2"), "components"),
        (audit("t.npz", "--design", "one-run", "--covariates", "x", "--exclude-levels", "x=1"), "exclude-levels"),
        (audit("t.npz", "--design", "one-run", "--by-covariates"), "by-covariates"),
        (audit("t.npz", "--design", "one-run", "--components", "2"), "components"),
        (audit("t.npz", "--design", "one-run", "--estimator", "aipw"), "estimator"),
        (audit("t.npz", "--design", "one-run", "--raw-only"), "raw-only"),
        (audit("t.npz", "--design", "one-run", "--correction", "composition"), "correction"),
        (audit("t.npz", "--design", "multi-run", "--guesses", "9"), "guesses"),
        ([*PAIR, "--member-labels", "in.npy", "--nonmember-labels", "out.npy"], "member-labels"),
        ([*PAIR, "--schema", "s.yaml"], "schema"),
        ([*SYNTHETIC, "--score", "x"], "score"),
        ([*SYNTHETIC, "--signal", "loss"], "signal"),
        ([*SYNTHETIC, "--attack", "loss"], "attack"),
        ([*SYNTHETIC, "--group", "x"], "group"),
        ([*SYNTHETIC, "--seal"], "seal"),
        ([*SYNTHETIC, "--categories", "x"], "categories"),
        ([*SYNTHETIC, "--headline", "split"], "headline"),
    ],
)
def test_an_option_that_nothing_uses_is_refused(place: Path, run: Run, words: list[str], option: str) -> None:
    code, out, err = run(*words)
    assert (code, out) == (2, "") and f"--{option} would not be used" in " ".join(err.replace("│", " ").split())
    del place


def test_an_option_that_nothing_uses_yet_is_said(place: Path, run: Run) -> None:
    code, _, err = run(*audit("t.npz", "--covariates", "x", "--estimator", "hajek", "--no-bounds"))
    assert code in (0, 3, 4) and "--estimator is of use with --design zero-run" in err
    code, _, err = run(*audit("t.npz", "--covariates", "x", "--design", "zero-run", "--categories", "nothing"))
    assert code == 1 and one_line(err)
    del place


@pytest.mark.parametrize("more", ["components: 2", "estimator: aipw", "exclude_levels: [x=1]"])
def test_an_option_that_nothing_uses_is_refused_in_a_file_too(place: Path, run: Run, more: str) -> None:
    (place / "c.yaml").write_text(
        f"evaluation: {{table_path: t.npz, score: score, member: member, design: one-run, {more}}}\n"
    )
    code, _, err = run("run", "c.yaml")
    assert code == 1 and one_line(err) and "goes with zero-run" in err


def test_every_option_of_an_audit_has_its_place() -> None:
    """An option that every audit reads is listed here; any other says where it applies."""
    import inspect

    from miaudit.command.audit import audit as command
    from miaudit.command.keys import KEYS
    from miaudit.config.audit import OPTIONS

    options = set(inspect.signature(command).parameters)
    always = {"context", "files", "members", "nonmembers", "synthetic", "design", "fpr_targets", "confidence"}
    always |= {
        "primary_metric",
        "threshold_for_concern",
        "prior",
        "n_bootstrap",
        "claim_epsilon",
        "claim_delta",
        "claim_mu",
        "mechanism",
        "no_bounds",
    }
    always |= {"show_rows", "out", "bundle", "overwrite", "json", "seed", "levels", "intervals", "no_figures"}
    always |= {"limit", "about", "shards"}  # of the records of a synthetic table, too
    always |= {"architecture", "checkpoint", "num_classes", "model_name"}
    of_some = {key for key, option in OPTIONS.items() if option.applies} | {"share", "seal"}
    parameters = {key: name for name, (key, _) in KEYS.items()}
    statistics = {"mu_in", "sigma_in", "mu_out", "sigma_out"}
    assert "attack.statistics" in of_some
    placed = {parameters.get(key, key) for key in of_some - {"attack.statistics"}} | statistics
    assert options == always | placed
