"""What is stated of an audit: in the file only where it is stated, and read again as it was."""

import json

import numpy as np
import pytest

import miaudit as ma
from miaudit.errors import InputError
from miaudit.findings.about import About
from miaudit.findings.audit import Findings


def plain(about=None):
    member = np.arange(60) % 2 == 0
    evidence = ma.Evidence(score=np.arange(60.0) % 7 + member, member=member, design="one-run")
    found = ma.audit(evidence, rng=0)
    return {**found.to_dict(), **({} if about is None else {"about": vars(about)})}


def test_it_is_absent_where_nothing_is_stated():
    content = plain()
    assert content["about"] is None
    assert Findings.from_dict(content).about is None


def test_it_is_read_and_written_again():
    content = plain(About(model="m", date="2026-03-01"))
    found = Findings.from_dict(json.loads(json.dumps(content)))
    assert found.about == About(model="m", date="2026-03-01")
    assert found.to_dict() == content


@pytest.mark.parametrize("wrong", [{"model": 3}, {"model": ""}, {"other": "x"}, []])
def test_what_does_not_follow_the_schema_is_refused(wrong):
    base = vars(About(model="m"))
    with pytest.raises(InputError, match="about"):
        Findings.from_dict({**plain(), "about": {**base, **wrong} if isinstance(wrong, dict) else wrong})


def test_one_line_has_what_is_stated_and_no_more():
    assert About(version="2").line == "version 2"
    assert About(data="d", by="b").line == "Data: d · Audited by b"
    assert About().line == ""
