"""The command line that made findings, and commands for what to do next.

A command repeats the words of the first, without where earlier results or bundles went: it would replace those.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from miaudit.findings.next_steps import Action, CommandLine, Intent

__all__ = ["PROGRAM", "Made"]

_TABLES = (".npz", ".csv", ".parquet")
_OTHER_TABLES = ("--propensity-sample", "--synthetic", "--schema")
_OF_PLAN = (  # options of miaudit audit that miaudit plan has too, where members were not assigned at random
    *("--member", "--covariates", "--text", "--unit", "--categories", "--components", "--estimator"),
    *("--propensity-model", "--member-covariates", "--nonmember-covariates", "--member-texts", "--nonmember-texts"),
    *("--member-units", "--nonmember-units"),
)
_PLACES = ("--out", "--overwrite", "--bundle", "--share", "--seal")
_SWITCHES = ("--overwrite", "--seal")
_AUDITS = ("audit", "run")  # whose words are read; any other command is only repeated


@dataclass(frozen=True)
class Made:
    """The words of the command that made findings; none where they were made in Python or by something else."""

    words: tuple[str, ...] = ()

    @classmethod
    def read(cls, repeat: Mapping[str, Any]) -> Made:
        """Read the command in the ``repeat`` of findings; any other line counts as no command."""
        line = repeat.get("command", "")
        try:
            words = shlex.split(line) if isinstance(line, str) else []
        except ValueError:
            words = []
        return cls(tuple(words)) if words[:1] == ["miaudit"] and len(words) > 1 else cls()

    @property
    def from_command(self) -> bool:
        """Whether one of the commands whose options are known here made them."""
        return self.words[1:2] in [(name,) for name in _AUDITS]

    @property
    def config(self) -> str:
        """The configuration file; empty where there was none."""
        if self.words[1:2] != ("run",):
            return ""
        return next((word for word in self.words[2:] if word.endswith((".yaml", ".yml"))), "")

    def option(self, name: str) -> str:
        """Return the value that an option was given last, or an empty text."""
        return next(reversed(list(self._values(_flag(name)))), "") if self.from_command else ""

    def command(self, intent: Intent) -> str:
        """Return the command for an intent; empty where too little is known of the first."""
        options = _flags(intent.options)
        measures = str(PurePath(self.config).with_name("measures.yaml")) if self.config else "CONFIG.yaml"
        bundle = self.option("bundle")
        words: dict[Action, tuple[str, ...]] = {
            "repeat": self.words,
            "audit again": self._again(options),
            "compare": ("miaudit", "compare", self.option("out") or "BEFORE", "AFTER"),
            "foresee": (*self._foreseen(), *options),
            "plan": ("miaudit", "plan", *options),
            "weaken": ("miaudit", "disclosure", measures),
            "hand on": ("miaudit", "verify", bundle) if bundle else self._again(["--bundle", "audit.zip"]),
            "draw": ("miaudit", "draw", "--help"),
        }
        return shlex.join(words[intent.action])

    def _again(self, options: list[str]) -> tuple[str, ...]:
        """The same audit with other values of some options; no words where it was no command of one line."""
        stated = dict(zip(options[::2], options[1::2], strict=True))
        chances = () if stated.get("--design", "one-run") == "one-run" else ("--inclusion",)  # no other design has them
        return (*self._without(*_PLACES, *chances, *stated), *options) if self.words[1:2] == ("audit",) else ()

    def _without(self, *flags: str) -> Iterator[str]:
        """The words without some options and their values."""
        skipped = False
        for word in self.words:
            name, has_value, _ = word.partition("=")
            if skipped or name in flags:
                skipped = not skipped and not has_value and name not in _SWITCHES
            else:
                yield word

    def _values(self, flag: str) -> Iterator[str]:
        for i, word in enumerate(self.words):
            if word == flag and i + 1 < len(self.words):
                yield self.words[i + 1]
            elif word.startswith(f"{flag}="):
                yield word.partition("=")[2]

    def _foreseen(self) -> list[str]:
        """The words of a plan from what was known of the records that were audited."""
        words = self.words if self.from_command else ()
        options = [part for flag in _OF_PLAN * bool(words) for value in self._values(flag) for part in (flag, value)]
        before = dict(zip(words[1:], words, strict=False))
        tables = [w for w in words[2:] if w.endswith(_TABLES) and before[w] not in _OTHER_TABLES]
        sides = any(word.startswith(("--member-", "--nonmember-")) for word in options)
        if not options:
            tables, options = ["FILE"], ["--member", "MEMBER", "--covariates", "COLUMNS"]
        return ["miaudit", "plan", *([] if sides else tables[:1] or ["FILE"]), *options]


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _flags(options: Mapping[str, Any]) -> list[str]:
    """Options of Python as words: each flag with its value."""
    return [
        word
        for name, value in options.items()
        for word in (_flag(name), f"{value:g}" if isinstance(value, float) else str(value))
    ]


# Installed as the entry point "program" of the group miaudit.commands, by which findings name the commands to come.
PROGRAM = CommandLine(Made.read)
