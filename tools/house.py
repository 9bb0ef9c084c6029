"""Count the rooms of src/miaudit and the arrows between them: ``python tools/house.py [--limits] [--names [PART]]``.

A room is a folder that is a package below src/miaudit, or a loose file at its top. An arrow A -> B says that some file
of A imports something of B, anywhere in the file, inside functions too, or names a module of B in a text, from which it
is imported later. An ``__init__.py`` that only hands a name on draws no arrow for it.
``--names`` lists the functions with more than 20 local names, and the assignments of names that say how a value arose.
``PART`` is a part of a path. With ``--limits`` the exit code is 1 if a number is above its limit in [tool.house] of
pyproject.toml.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src"
NAME = "miaudit"
Graph = dict[str, set[str]]
Function = ast.FunctionDef | ast.AsyncFunctionDef
MOST_LOCALS = 20
VAGUE = frozenset({"asked", "drawn", "found", "given", "kept", "made", "said", "told"})  # names of no content
_INNER = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def modules() -> dict[str, Path]:
    """Return the path of each module and package, by dotted name."""
    parts = {path.relative_to(SRC).with_suffix("").parts: path for path in sorted((SRC / NAME).rglob("*.py"))}
    return {".".join(names).removesuffix(".__init__"): path for names, path in parts.items()}


def room(module: str, known: Mapping[str, Path]) -> str:
    """Return the room of a module: its package below the top, or itself; empty for the top's ``__init__``."""
    package = module if known[module].name == "__init__.py" else module.rpartition(".")[0]
    return (module if package == NAME else package).removeprefix(NAME).removeprefix(".")


@functools.cache
def parsed(path: Path) -> tuple[ast.AST, ...]:
    """Return every node of a file."""
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def imported(path: Path, module: str, known: Mapping[str, Path], *, checking: bool = True) -> Iterator[str]:
    """Yield each module that a file imports; without ``checking`` not those for the type checker only."""
    asked = [node for node in parsed(path) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)]
    types_only = {inner for node in asked for statement in node.body for inner in ast.walk(statement)}
    is_package, used = path.name == "__init__.py", {node.id for node in parsed(path) if isinstance(node, ast.Name)}
    for node in parsed(path):
        if not isinstance(node, ast.Import | ast.ImportFrom) or (node in types_only and not checking):
            continue
        for alias in node.names:
            if is_package and (alias.asname or alias.name).partition(".")[0] not in used:
                continue  # handed on
            found = alias.name
            if isinstance(node, ast.ImportFrom):
                above = module.split(".")[: len(module.split(".")) + is_package - node.level] if node.level else []
                base = ".".join([*above, *([node.module] if node.module else [])])
                found = f"{base}.{alias.name}" if f"{base}.{alias.name}" in known else base
            if found in known and found != module:
                yield found


def named(path: Path, module: str, known: Mapping[str, Path]) -> Iterator[str]:
    """Yield each module that a text of a file names, as ``miaudit.a.b`` or ``a.b``, or an attribute of one."""
    own = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in parsed(path):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and re.fullmatch(r"\w+([.:]\w+)+", node.value)
        ):
            text = node.value.replace(":", ".")
            above = text.rpartition(".")[0]
            names = [text, f"{NAME}.{text}", *([above, f"{NAME}.{above}"] if "." in above else [])]  # not findings.json
            yield from [name for name in names if name in known and name not in (NAME, module, own)][:1]


def local_names(function: Function) -> set[str]:
    """Return the arguments of a function and the names that it assigns, without those of what is defined inside it."""
    names = {argument.arg for argument in ast.walk(function.args) if isinstance(argument, ast.arg)}
    ahead: list[ast.AST] = list(function.body)
    while ahead:
        node = ahead.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif not isinstance(node, _INNER):
            names |= {node.id} if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else set()
            ahead += ast.iter_child_nodes(node)
    return names


def vague(path: Path) -> list[ast.Name]:
    """Return the assignments of a file to names that say how a value arose, not what it is."""
    stored = (node for node in parsed(path) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    return [node for node in stored if node.id in VAGUE]


def crowded(path: Path) -> list[Function]:
    """Return the functions of a file with too many local names."""
    functions = (node for node in parsed(path) if isinstance(node, Function))
    return [node for node in functions if len(local_names(node)) > MOST_LOCALS]


def list_names(part: str) -> None:
    """Print each crowded function and each vague name of the files whose path has this part."""
    for path in sorted(path for path in modules().values() if part in str(path)):
        place = path.relative_to(ROOT)
        for function in crowded(path):
            print(f"{place}:{function.lineno}: {function.name} has {len(local_names(function))} local names")
        for node in sorted(vague(path), key=lambda one: one.lineno):
            print(f"{place}:{node.lineno}: {node.id}")


def graphs(*, checking: bool = True) -> tuple[Graph, Graph]:
    """Return who imports whom: by module, and by room."""
    known = modules()
    by_module = {
        name: {*imported(path, name, known, checking=checking), *named(path, name, known)}
        for name, path in known.items()
    }
    by_room: Graph = {room(name, known): set() for name in known if name != NAME}
    for name, targets in by_module.items():
        if name != NAME:
            by_room[room(name, known)] |= {room(other, known) for other in targets} - {room(name, known), ""}
    return by_module, by_room


def reached(graph: Graph, start: str) -> set[str]:
    """Return what is reached from a node along at least one arrow."""
    found, ahead = set[str](), {start}
    while ahead:
        ahead = set[str]().union(*(graph[node] for node in ahead)) - found
        found |= ahead
    return found


def circles(graph: Graph) -> list[list[str]]:
    """Return the strongly connected components of more than one node."""
    far = {node: reached(graph, node) for node in graph}
    return sorted({tuple(sorted(b for b in far[a] if a in far[b])) for a in graph if a in far[a]})


def code_lines(function: Function) -> int:
    """Return the lines of a function from its ``def`` on, those of its docstring left out."""
    docstring = ast.get_docstring(function, clean=False)
    return (function.end_lineno or 0) - function.lineno + 1 - (0 if docstring is None else docstring.count("\n") + 1)


def main() -> None:
    """Print the numbers; with ``--limits`` exit 1 above them."""
    known, (by_module, by_room) = modules(), graphs()
    lines = [path.read_bytes().count(b"\n") for path in known.values()]
    read = [path.read_bytes() for path in (SRC / NAME).rglob("*") if path.is_file() and path.suffix != ".pyc"]
    nodes = [node for path in known.values() for node in parsed(path)]
    long = [node for node in nodes if isinstance(node, Function) and code_lines(node) > 60]
    many = sum(len(crowded(path)) for path in known.values())
    unclear = sum(len(vague(path)) for path in known.values())
    round_trips = [" <-> ".join(found) for graph in (by_room, by_module) for found in circles(graph)]
    arrows, running = (sum(map(len, rooms.values())) for rooms in (by_room, graphs(checking=False)[1]))
    top = sum(path.parent == SRC / NAME for path in known.values()) - 1  # without __init__.py
    counted = {"top_modules": top, "rooms": len(by_room), "arrows": arrows, "circles": len(round_trips)}
    counted |= {"crowded_functions": many, "vague_names": unclear}
    print(f"{top} modules at the top, {len(by_room)} rooms, {len(round_trips)} circles, {arrows} arrows", end=" ")
    print(f"({running} without those for the type checker only)")
    text = sum(content.count(b"\n") for content in read if b"\0" not in content)
    print(f"{sum(lines):,} lines of Python, {text:,} of all text")
    print(f"{sum(n > 600 for n in lines)} files over 600 lines, {len(long)} functions over 60 (without docstring)")
    print(f"{many} functions with over {MOST_LOCALS} local names, {unclear} assignments of vague names")
    print("".join(f"circle: {found}\n" for found in round_trips), end="")
    limits = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["house"]
    above = [f"{name}: at most {most}, found {counted[name]}" for name, most in limits.items() if counted[name] > most]
    if above and "--limits" in sys.argv:
        sys.exit(f"above the limits of [tool.house] in pyproject.toml: {'; '.join(above)}")


if __name__ == "__main__":
    if "--names" in sys.argv:
        list_names("".join(sys.argv[sys.argv.index("--names") + 1 :][:1]))
    else:
        main()
