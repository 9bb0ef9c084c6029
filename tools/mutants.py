"""Change the statistics in small ways and see whether a fast test fails: ``python tools/mutants.py ROOM``.

A mutant is one small change of one module: ``<`` becomes ``<=``, a bound of ``np.clip`` disappears, a statement is left
out. A mutant that no test notices survives: the tests do not hold on to what it changed, or it changes nothing.

Modules and tests are loaded once. A first pass notes which test executes which statement. Then a process is forked
for each mutant, which replaces the code of the functions in place and runs the tests that execute the changed
statement, those of its module first, until one fails. Defaults of parameters and fields and texts stay as they are.

    python tools/mutants.py metrics --sample 300    a seeded sample of one room: causal, dp, metrics or verdict
    python tools/mutants.py metrics --again         those that survived the last time, after new tests
    python tools/mutants.py metrics --list          the sample, none of it run

The sample depends on the seed and on what the functions say, not on where they stand in their file. Results go to
``build/mutants/ROOM.jsonl``; a mutant that stands there is not run a second time. A test that takes far more CPU time
than without the change kills the mutant. Of code that many tests execute, the first ``--seconds`` of tests are run.
"""

from __future__ import annotations

import argparse
import ast
import bisect
import builtins
import contextlib
import functools
import gc
import hashlib
import itertools
import json
import os
import pickle
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import types
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src" / "miaudit"
FAST = "not slow and not long and not thorough"
VERDICT = "findings/verdict.py findings/verdict_text.py findings/judge.py findings/policy.py auditing/judgement.py"
# Of each room, the files that are changed and the tests that are run; the doctests of the files are run too.
ROOMS = {
    "causal": ("causal", "tests/causal"),
    "dp": ("dp", "tests/dp"),
    "metrics": ("metrics", "tests/metrics tests/laws/test_metrics.py tests/laws/test_units.py"),
    "verdict": (VERDICT, "tests/findings tests/auditing tests/laws/test_limits.py tests/laws/test_verdict_doors.py"),
}
HITS = "_statements_executed"  # what instrumented code writes to
PAIRS = ("min max", "minimum maximum", "fmin fmax", "argmin argmax", "nanmin nanmax", "floor ceil", "any all", "sf cdf")
SWAPS = dict(pair.split() for pair in (*PAIRS, "isf ppf", "logsf logcdf", "zeros ones"))
SWAPS |= {new: old for old, new in SWAPS.items()}
WORDS = {"left": "right", "lower": "higher", "less": "greater"}  # sides of ties, quantiles and tests
WORDS |= {new: old for old, new in WORDS.items()}
COMPARED: dict[type, tuple[type, ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
COUNTED: dict[type, type] = {ast.Add: ast.Sub, ast.Mult: ast.Div, ast.BitAnd: ast.BitOr}
COUNTED |= {new: old for old, new in COUNTED.items()} | {ast.FloorDiv: ast.Div, ast.Pow: ast.Mult}
UNCHANGED = {"returns", "decorator_list", "args", "type_params", "bases", "keywords"}  # fields that stay
KEYWORDS = {"strict", "copy", "stacklevel", "encoding", "kw_only", "repr"}  # arguments that change no number
TOLERANCE = 1e-6  # smaller constants are for rounding: twice as much changes nothing
Function = ast.FunctionDef | ast.AsyncFunctionDef


# -- the mutants -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mutant:
    """One change: of the statement ``statement`` of a file, the ``variant``-th change of its node ``node``."""

    path: str
    function: str
    before: str
    after: str
    nth: int
    statement: int
    node: int
    variant: int

    @property
    def name(self) -> str:
        """What identifies it, wherever it stands in its file."""
        return f"{self.path} {self.function}: {self.before} -> {self.after} #{self.nth}"


def changes(node: ast.AST) -> Iterator[tuple[str, ast.AST, ast.AST]]:
    """Yield each change of a node: a short text of what was, the new node, and the node whose text shows it."""
    match node:
        case ast.Compare(ops=[operator]):
            for new in COMPARED[type(operator)]:
                yield from _new(node, ast.Compare(node.left, [new()], node.comparators))
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in COUNTED and not _text(left, right):
            yield from _new(node, ast.BinOp(left, COUNTED[type(operator)](), right))
        case ast.BoolOp(op=operator, values=values):
            yield from _new(node, ast.BoolOp(ast.Or() if isinstance(operator, ast.And) else ast.And(), values))
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert(), operand=operand):
            yield from _new(node, operand)
        case ast.Constant(value=value):
            yield from (step for new in _values(value) for step in _new(node, ast.Constant(new)))
        case ast.Name(id=name, ctx=ast.Load()) if name in SWAPS:
            yield from _new(node, ast.Name(SWAPS[name], ast.Load()))
        case ast.Attribute(value=of, attr=name, ctx=ast.Load()) if name in SWAPS:
            yield from _new(node, ast.Attribute(of, SWAPS[name], ast.Load()))
        case ast.Call():
            yield from (step for new in _calls(node) for step in _new(node, new))
        case ast.IfExp(test=test, body=body, orelse=other):
            yield from _new(node, ast.IfExp(test, other, body))
        case ast.If(test=test) if not isinstance(test, ast.UnaryOp | ast.Compare):
            new_if = ast.If(ast.UnaryOp(ast.Not(), test), node.body, node.orelse)
            yield f"if {ast.unparse(test)}", new_if, ast.Name(f"if not ({ast.unparse(test)})")
        case ast.Return(value=ast.BinOp() as value) if not _text(value.left, value.right):
            yield from _new(node, ast.Return(ast.UnaryOp(ast.USub(), value)))
        case ast.Continue():
            yield from _new(node, ast.Break())
        case ast.stmt() if _removable(node):
            yield ast.unparse(node), ast.Pass(), ast.Pass()


def _new(node: ast.AST, new: ast.AST) -> Iterator[tuple[str, ast.AST, ast.AST]]:
    yield ast.unparse(node), new, new


def _text(*nodes: ast.AST) -> bool:
    return any(isinstance(node, ast.JoinedStr | ast.List | ast.Tuple) or _is_text(node) for node in nodes)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def _values(value: object) -> Iterator[Any]:
    match value:
        case bool():
            yield not value
        case int():
            yield value + 1
            yield value - 1
        case float() if not 0 < abs(value) < TOLERANCE:
            yield 2 * value if value else 1.0
        case str() if value in WORDS:
            yield WORDS[value]


def _calls(node: ast.Call) -> Iterator[ast.AST]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in ("abs", "fabs", "absolute") and len(node.args) == 1:
        yield node.args[0]
    if name == "clip":
        of_numpy = isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") == "np"
        for place in range(int(of_numpy), len(node.args)):
            if not (isinstance(node.args[place], ast.Constant) and node.args[place].value is None):
                args: list[ast.expr] = [*node.args[:place], ast.Constant(None), *node.args[place + 1 :]]
                yield ast.Call(node.func, args, node.keywords)


def _removable(node: ast.stmt) -> bool:
    match node:
        case ast.Expr(value=ast.Call()) | ast.Raise() | ast.AugAssign():
            return True
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() | ast.Subscript() as value):
            return any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(value))
    return False


def places(node: ast.AST, function: str = "", statement: ast.stmt | None = None) -> Iterator[tuple[Any, str, ast.stmt]]:
    """Yield what may change, the name of its function, empty at the top of the file, and its statement."""
    if isinstance(node, ast.stmt):
        statement = node
    if statement is not None and (function or isinstance(node, ast.Constant)):
        yield node, function, statement
    if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr):
        return
    inner, fixed = function, {"annotation"}
    if isinstance(node, Function | ast.ClassDef):
        inner, fixed = f"{function}.{node.name}".lstrip("."), UNCHANGED
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or name in fixed:
                continue
            if isinstance(child, ast.keyword) and child.arg in KEYWORDS:
                continue
            if isinstance(child, ast.stmt) and not isinstance(child, Function | ast.ClassDef):
                constant = isinstance(node, ast.Module) and isinstance(child, ast.Assign | ast.AnnAssign)
                if isinstance(node, ast.ClassDef) or not (inner or constant):
                    continue  # fields of classes, imports, conditions for the type checker
            yield from places(child, inner, statement)


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Yield every mutant of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    numbers = {id(node): number for number, node in enumerate(ast.walk(tree))}
    seen: Counter[tuple[str, str, str]] = Counter()
    for node, function, statement in places(tree):
        if isinstance(node, Function) and ast.get_docstring(node):
            continue
        for variant, (before, _, shown) in enumerate(changes(node)):
            key = function or _target(statement), before, ast.unparse(shown)
            if not key[0]:
                continue
            seen[key] += 1
            where = numbers[id(statement)], numbers[id(node)]
            yield Mutant(path.relative_to(SRC).as_posix(), *key, seen[key], *where, variant)


def _target(statement: ast.stmt) -> str:
    """The name that a statement at the top of a file assigns."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    return targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else ""


def sample(mutants: Iterable[Mutant], size: int, seed: int) -> list[Mutant]:
    """Return the mutants with the smallest digests of seed and name: the same ones wherever functions stand."""
    return sorted(mutants, key=lambda one: hashlib.sha256(f"{seed} {one.name}".encode()).digest())[:size]


def mutated(tree: ast.Module, mutant: Mutant) -> ast.Module:
    """Return the tree of a file with one change, in place."""
    nodes = list(ast.walk(tree))
    target = nodes[mutant.node]
    new = [new for _, new, _ in changes(target)][mutant.variant]
    for parent in nodes:
        for name, value in ast.iter_fields(parent):
            if value is target:
                setattr(parent, name, ast.copy_location(new, target))
            elif isinstance(value, list):
                value[:] = [ast.copy_location(new, target) if child is target else child for child in value]
    return ast.fix_missing_locations(tree)


# -- code in place -----------------------------------------------------------------------------------------------------

Key = tuple[str, int]


def codes(code: types.CodeType) -> Iterator[tuple[Key, types.CodeType]]:
    """Yield every code object below one, by qualified name and first line."""
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield (constant.co_qualname, constant.co_firstlineno), constant
            yield from codes(constant)


def functions(paths: Sequence[Path]) -> dict[str, dict[Key, list[types.FunctionType]]]:
    """Return the functions of files that are loaded, by path and key."""
    found: dict[str, dict[Key, list[types.FunctionType]]] = {str(path): defaultdict(list) for path in paths}
    for one in gc.get_objects():
        if type(one) is types.FunctionType and one.__code__.co_filename in found:
            found[one.__code__.co_filename][one.__code__.co_qualname, one.__code__.co_firstlineno].append(one)
    return found


def replace_code(tree: ast.Module, path: Path, loaded: dict[Key, list[types.FunctionType]]) -> None:
    """Give the functions of a file the code of a changed tree."""
    for key, code in codes(compile(tree, str(path), "exec", dont_inherit=True)):
        for one in loaded.get(key, ()):
            one.__code__ = code


def rebind(tree: ast.Module, mutant: Mutant) -> None:
    """Give a constant at the top of a file its changed value, wherever it is imported."""
    statement = next(one for one in tree.body if _target(one) == mutant.function and hasattr(one, "value"))
    own = sys.modules["miaudit." + mutant.path.removesuffix(".py").replace("/", ".")]
    value = ast.Expression(statement.value)  # type: ignore[attr-defined]
    new, old = eval(compile(value, mutant.path, "eval"), vars(own)), vars(own)[mutant.function]
    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", {}).get(mutant.function) is old:
            vars(module)[mutant.function] = new


def naming(tree: ast.Module, name: str) -> Iterator[int]:
    """Yield the numbers of the statements that name something, in themselves and not in statements below them."""
    for number, node in enumerate(ast.walk(tree)):
        if isinstance(node, ast.stmt):
            own = [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]
            parts = (part for child in own for part in ast.walk(child))
            if any(name in (getattr(part, "id", ""), getattr(part, "attr", "")) for part in parts):
                yield number


def instrumented(tree: ast.Module, offset: int) -> ast.Module:
    """Return a tree in which every statement of a function notes that it was executed."""
    numbers = {id(node): number for number, node in enumerate(ast.walk(tree))}
    for function in [node for node in ast.walk(tree) if isinstance(node, Function)]:
        for node in ast.walk(function):
            for name in ("body", "orelse", "finalbody"):
                statements = getattr(node, name, None)
                if isinstance(statements, list) and not isinstance(node, ast.ClassDef):
                    setattr(node, name, list(_noting(statements, numbers, offset)))
    return ast.fix_missing_locations(tree)


def _noting(statements: list[ast.stmt], numbers: dict[int, int], offset: int) -> Iterator[ast.stmt]:
    for statement in statements:
        number = numbers.pop(id(statement), None)  # once
        if number is not None and not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
            (note,) = ast.parse(f"{HITS}[{offset + number}] = 1").body
            yield ast.copy_location(note, statement)
        yield statement


# -- the runs ----------------------------------------------------------------------------------------------------------


@dataclass
class Pass:
    """What a pass over the tests shows: of each test its CPU seconds, what it executes, and whether it fails."""

    seconds: dict[int, float] = field(default_factory=dict)
    executed: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))  # tests by statement
    failed: set[int] = field(default_factory=set)


@dataclass(eq=False)
class Runner:
    """A plug-in of pytest that runs mutants in the place of the tests."""

    paths: list[Path]
    mutants: list[Mutant]
    jobs: int
    budget: float
    report: Callable[[Mutant, str, str], None]
    failed: bool = False
    items: list[Any] = field(default_factory=list)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Remember that a test failed."""
        self.failed = self.failed or report.failed

    def pytest_runtestloop(self, session: Any) -> bool:
        """Run the tests once to see what they execute, once in another order, and then each mutant."""
        import miaudit

        assert Path(miaudit.__file__).is_relative_to(SRC), miaudit.__file__  # another checkout
        self.items, self.loaded = session.items, functions(self.paths)
        self.trees = {path: path.read_text(encoding="utf-8") for path in self.paths}
        self.offsets, size = {}, 0
        for path in self.paths:
            self.offsets[path], size = size, size + sum(1 for _ in ast.walk(ast.parse(self.trees[path])))
        gc.collect()
        gc.freeze()
        first = _answer(*self.fork(lambda: self.first_pass(size)))
        self.seconds = {number: first.seconds.get(number, 0.0) for number in range(len(self.items))}
        by_module: dict[str, float] = defaultdict(float)  # what its tests share may be prepared in any of them
        for number, item in enumerate(self.items):
            by_module[item.nodeid.partition("::")[0]] += self.seconds[number]
        self.most = {number: by_module[item.nodeid.partition("::")[0]] for number, item in enumerate(self.items)}
        order = self.fastest(set(range(len(self.items))) - first.failed)
        again = _answer(*self.fork(lambda: self.control(order)))
        unfit = first.failed | again.failed
        self.executed = {statement: tests - unfit for statement, tests in first.executed.items()}
        total = sum(self.seconds.values())
        print(f"{len(self.items)} tests, {total:.0f} CPU seconds; left out: {[self.items[n].nodeid for n in unfit]}")
        self.run_all()
        return True

    def fastest(self, tests: Iterable[int]) -> list[int]:
        """Return tests in the order of their CPU seconds."""
        return sorted(tests, key=lambda number: (self.seconds[number], number))

    def first_pass(self, size: int) -> Pass:
        """Run every test, and note what it executes."""
        hits = bytearray(size)
        setattr(builtins, HITS, hits)
        for path in self.paths:
            tree = instrumented(ast.parse(self.trees[path]), self.offsets[path])
            replace_code(tree, path, self.loaded[str(path)])
        result = Pass()
        for number, following in enumerate([*range(1, len(self.items)), None]):
            hits[:] = bytes(size)
            result.seconds[number] = self.run_test(number, following)
            if self.failed:
                result.failed.add(number)
            for statement in (place for place, hit in enumerate(hits) if hit):
                result.executed[statement].add(number)
        return result

    def control(self, order: list[int]) -> Pass:
        """Run every test in the order that mutants meet, without a change: what fails here says nothing of a mutant."""
        result = Pass()
        for number, following in zip(order, [*order[1:], None], strict=True):
            self.run_test(number, following)
            if self.failed:
                result.failed.add(number)
        return result

    def run_test(self, number: int, following: int | None) -> float:
        """Run one test, and return its CPU seconds; ``failed`` says how it went."""
        item, start, self.failed = self.items[number], time.process_time(), False
        after = None if following is None else self.items[following]
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        return time.process_time() - start

    def tests_of(self, mutant: Mutant) -> list[int]:
        """Return tests that execute what a mutant changes: those of its module first, the fastest first."""
        own = f"test_{Path(mutant.path).name}::"
        tests = self.fastest(self.executing(mutant))
        tests.sort(key=lambda number: own not in self.items[number].nodeid)
        spent = list(itertools.accumulate(self.seconds[number] for number in tests))
        return tests[: max(1, bisect.bisect_right(spent, self.budget))]

    def executing(self, mutant: Mutant) -> set[int]:
        """Return the tests that execute what a mutant changes, or, of a constant, a statement that names it."""
        if not self.at_the_top(mutant):
            return self.executed.get(self.offsets[SRC / mutant.path] + mutant.statement, set())
        tests: set[int] = set()
        for path, source in self.trees.items():
            for statement in naming(ast.parse(source), mutant.function):
                tests |= self.executed.get(self.offsets[path] + statement, set())
        return tests

    def at_the_top(self, mutant: Mutant) -> bool:
        """Whether a mutant changes a constant at the top of its file."""
        tree = ast.parse(self.trees[SRC / mutant.path])
        return list(ast.walk(tree))[mutant.statement] in tree.body

    def run_mutant(self, mutant: Mutant, tests: list[int]) -> str:
        """Return the test that fails, in a process of its own; empty if none does."""
        path = SRC / mutant.path
        tree = mutated(ast.parse(self.trees[path]), mutant)
        if self.at_the_top(mutant):
            rebind(tree, mutant)
        else:
            replace_code(tree, path, self.loaded[str(path)])
        for number, following in zip(tests, [*tests[1:], None], strict=True):
            signal.setitimer(signal.ITIMER_PROF, 3 * self.seconds[number] + self.most[number] + 3)  # ends the process
            self.run_test(number, following)
            if self.failed:
                return str(self.items[number].nodeid)
        return ""

    def fork(self, work: Callable[[], Any]) -> tuple[int, int]:
        """Start a process that does some work; return its number and where its answer can be read."""
        reading, writing = os.pipe()
        sys.stdout.flush()
        number = os.fork()
        if number:
            os.close(writing)
            return number, reading
        code = 1
        try:
            os.setsid()
            errors = os.dup(2)
            silent = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silent, 1)
            os.dup2(silent, 2)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
            with _folder(self.items[0].config):
                answer = pickle.dumps(work())
            with os.fdopen(writing, "wb") as file:
                file.write(answer)
            code = 0
        except BaseException:
            os.write(errors, traceback.format_exc().encode())
        finally:
            os._exit(code)

    def run_all(self) -> None:
        """Run each mutant, a few at a time."""
        waiting, running = list(reversed(self.mutants)), {}
        while waiting or running:
            while waiting and len(running) < self.jobs:
                mutant = waiting.pop()
                tests = self.tests_of(mutant)
                if not tests:
                    self.report(mutant, "not executed", "")
                    continue
                number, reading = self.fork(functools.partial(self.run_mutant, mutant, tests))
                wall = 60 + 20 * sum(self.seconds[test] for test in tests)  # a process that waits uses no CPU time
                running[number] = (mutant, reading, time.monotonic() + wall)
            self.harvest(running)
            time.sleep(0.01)

    def harvest(self, running: dict[int, tuple[Mutant, int, float]]) -> None:
        """Report the processes that ended, and end those that wait too long."""
        for number, (mutant, reading, end) in list(running.items()):
            done, status = os.waitpid(number, os.WNOHANG)
            if not done and time.monotonic() > end:
                os.killpg(number, signal.SIGKILL)
                done, status = os.waitpid(number, 0)
            if done:
                del running[number]
                answer = _read(reading)
                if status or not answer:
                    self.report(mutant, "killed", "time" if os.WIFSIGNALED(status) else "the process ended")
                else:
                    killer = pickle.loads(answer)
                    self.report(mutant, "killed" if killer else "survived", killer)


@contextlib.contextmanager
def _folder(config: Any) -> Iterator[None]:
    """Give the tests of this process a folder of their own."""
    path = Path(tempfile.mkdtemp(prefix="mutants-"))
    config._tmp_path_factory._given_basetemp, config._tmp_path_factory._basetemp = path / "pytest", None
    try:
        yield
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _read(reading: int) -> bytes:
    with os.fdopen(reading, "rb") as file:
        return file.read()


def _answer(number: int, reading: int) -> Pass:
    answer = _read(reading)
    _, status = os.waitpid(number, 0)
    if status:
        raise SystemExit(f"The pass over the tests failed: {status}")
    result: Pass = pickle.loads(answer)
    return result


def options() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("room", choices=sorted(ROOMS))
    parser.add_argument("--sample", type=int, default=300, help="mutants at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--seconds", type=float, default=20.0, help="CPU seconds of tests for each mutant, at most")
    parser.add_argument("--again", action="store_true", help="only those that survived the last time")
    parser.add_argument("--list", action="store_true", help="list the mutants of the room")
    return parser.parse_args()


def main() -> int:
    """Run the mutants of a room."""
    chosen = options()
    sources, tests = (value.split() for value in ROOMS[chosen.room])
    paths = [path for name in sources for path in ([SRC / name] if name.endswith(".py") else _files(SRC / name))]
    known = [mutant for path in paths for mutant in mutants_of(path)]
    mutants = sample(known, chosen.sample, chosen.seed)
    out = ROOT / "build" / "mutants" / f"{chosen.room}.jsonl"
    results = {one["name"]: one for one in map(json.loads, out.read_text().splitlines())} if out.is_file() else {}
    if chosen.again:
        mutants = [one for one in known if results.get(one.name, {"status": "killed"})["status"] != "killed"]
    elif not chosen.list:
        mutants = [one for one in mutants if one.name not in results]
    if chosen.list:
        print("\n".join(mutant.name for mutant in mutants), f"{len(known)} mutants", sep="\n")
        return 0
    out.parent.mkdir(parents=True, exist_ok=True)
    counts: Counter[str] = Counter()
    start = time.monotonic()

    def report(mutant: Mutant, status: str, by: str) -> None:
        counts[status] += 1
        with out.open("a") as file:
            file.write(json.dumps({"name": mutant.name, "status": status, "by": by, **asdict(mutant)}) + "\n")
        if status != "killed":
            print(f"{status}: {mutant.name}", flush=True)

    import pytest

    runner = Runner(paths, mutants, chosen.jobs, chosen.seconds, report)
    where = [*tests, *(str(path.relative_to(ROOT)) for path in paths)]
    os.chdir(ROOT)
    quiet = ["-q", "-q", "-s", "-n", "0", "-p", "no:benchmark", "-m", FAST]
    pytest.main([*quiet, *where], plugins=[runner])
    minutes = (time.monotonic() - start) / 60
    print(f"{chosen.room}: {len(known)} mutants known, {counts.total()} run in {minutes:.0f} minutes, {dict(counts)}")
    results = {one["name"]: one for one in map(json.loads, out.read_text().splitlines())}
    print(f"of all that were run: {dict(Counter(one['status'] for one in results.values()))}")
    return 0


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.py") if path.name != "__init__.py")


if __name__ == "__main__":
    sys.exit(main())
