"""The section coins of a configuration: secret and answer for a training, the reveal for scores that are there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from miaudit.config.audit import AuditConfig, CampaignConfig
from miaudit.config.sealed_coins import coins_of
from miaudit.config.section import validated
from miaudit.errors import ConfigError, InputError
from miaudit.io.sealed_coins import Answer, Coins, Secret, of_file

TARGET = {"target": {"kind": "sklearn", "estimator": "sklearn.svm:SVC"}, "data": {"path": "d.csv", "x": "x", "y": "y"}}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "d.csv").write_text("x,y\n1,0\n2,1\n")
    secret = Secret.new(coins=2, records=of_file(tmp_path / "d.csv"))
    secret.write(tmp_path / "s.json")
    answer = Answer.to(secret.commitment)
    answer.write(tmp_path / "a.json")
    secret.coins(answer).write(tmp_path / "r.json")
    return tmp_path


def test_a_secret_with_its_answer_and_the_reveal_are_the_same_coins(place: Path) -> None:
    revealed = Coins.read(place / "r.json")
    drawn = coins_of({"secret": "s.json", "answer": "a.json"}, place, "d.csv")
    assert drawn is not None
    assert (drawn.signature, drawn.revealed()) == ("", revealed)
    assert coins_of({"reveal": "r.json"}, place) == revealed
    alone = coins_of({"secret": "s.json"}, place)
    assert alone is not None
    assert alone.answer is None
    assert coins_of({}, place) is None


def test_other_records_than_were_committed_to_are_refused(place: Path) -> None:
    (place / "d.csv").write_text("x,y\n2,1\n1,0\n")
    with pytest.raises(InputError, match=r"coins for the records of d\.csv, received coins for the list with SHA-256"):
        coins_of({"reveal": "r.json"}, place, "d.csv")


@pytest.mark.parametrize(
    ("kind", "section", "said"),
    [
        (CampaignConfig, {"secret": "s.json", "reveal": "r.json"}, "one of them, received both"),
        (CampaignConfig, {"answer": "a.json"}, "received neither"),
        (CampaignConfig, {"reveal": "r.json", "answer": "a.json"}, "no answer beside reveal"),
        (CampaignConfig, {"secret": "missing.json"}, "coins.secret: expected an existing file"),
        (CampaignConfig, {"seed": 1}, "coins.seed: unknown key"),
        (AuditConfig, {"secret": "s.json"}, "coins.secret: expected reveal, for outputs that are there"),
    ],
)
def test_what_does_not_go_together_is_refused(place: Path, kind: Any, section: Any, said: str) -> None:
    content = TARGET if kind is CampaignConfig else {"evaluation": {"table_path": "d.csv"}}
    with pytest.raises(ConfigError, match=said):
        validated({**content, "coins": section}, kind, place / "c.yaml")


def test_members_and_nonmembers_in_two_files_have_no_order_of_coins(place: Path) -> None:
    for name in ("m.npy", "n.npy"):
        (place / name).touch()
    files = {"member_scores_path": "m.npy", "nonmember_scores_path": "n.npy"}
    with pytest.raises(ConfigError, match=r"coins\.reveal: expected none, for two files"):
        validated({"evaluation": files, "coins": {"reveal": "r.json"}}, AuditConfig, place / "c.yaml")
