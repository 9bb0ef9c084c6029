"""Write docs/commands.md from the commands themselves: ``python docs/make_commands.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from miaudit.command import program

PAGE = Path(__file__).parent / "commands.md"


def page() -> str:
    """Return the reference of every command and option, as text of a page."""
    parts = [
        "# Commands",
        "Look up a command of the terminal: what it takes, and how it ends.",
        "Written from the commands themselves by `docs/make_commands.py`; `miaudit COMMAND --help` says the same.",
        "Where a command has many options, `--help` shows those of daily use, and `--help-all` shows all of them. "
        "A share may be written as 0.05 or as 5%.",
        program.EXIT_CODES,
    ]
    for name in program.COMMANDS:
        command = program.loaded(name)
        parts += _command(name, command)
        for step, inner in getattr(command, "commands", {}).items():
            parts += _command(f"{name} {step}", inner)
    return "\n\n".join(parts) + "\n"


def _command(name: str, command: Any) -> list[str]:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and p.name != "help"]
    usage = " ".join(["miaudit", name, *(_argument(p) for p in arguments), "[OPTIONS]" if options else ""]).strip()
    parts = [f"## miaudit {name}", f"```\n{usage}\n```", _paragraphs(command.help or "")]
    if arguments:
        rows = "\n".join(f"| `{_argument(p)}` | {_cell(p.help or '')} |" for p in arguments)
        parts.append(f"| argument | |\n|---|---|\n{rows}")
    if options:
        rows = "\n".join(f"| {_flags(p)} | {_cell(p.help or '')} | {_default(p)} |" for p in options)
        parts.append(f"| option | | default |\n|---|---|---|\n{rows}")
    if command.epilog:
        *examples, last = command.epilog.split("\n\n")
        if not examples or last.startswith("miaudit"):
            examples, last = [*examples, last], ""
        parts += [examples[0], "```\n" + "\n".join(examples[1:]) + "\n```"] if examples[1:] else examples
        parts += [last] if last else []
    return parts


def _argument(parameter: Any) -> str:
    name = str(parameter.name).upper()
    many = f"{name}..." if parameter.nargs == -1 else name
    return many if parameter.required else f"[{many}]"


def _flags(parameter: Any) -> str:
    return ", ".join(f"`{flag}`" for flag in parameter.opts)


def _default(parameter: Any) -> str:
    value = parameter.default
    if isinstance(parameter.show_default, str):
        return f"`{parameter.show_default}`"
    if value is None or value is False or value == () or callable(value):
        return ""
    return f"`{value}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
