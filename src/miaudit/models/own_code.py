"""Code that a user names as "package.module:function": imported, and described by what it does.

A description goes into the fingerprints of stores. It holds values and digests of code without comments and docstrings:
a fit is repeated where the code behaves otherwise, and not where its words were edited.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib
import inspect
import sys
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from miaudit.errors import InputError, nearest, one_line
from miaudit.jobs.resumable import digest
from miaudit.models.foreign import refuse_pickle

_LIBRARIES = {"builtins", "abc", "typing", "torch", "sklearn", "miaudit"}  # described by their versions


def load_factory(where: str) -> Callable[..., Any]:
    """Import the function that "package.module:function" names. This runs the module's code.

    Raises
    ------
    InputError
        If there is no such module or function, or the module fails.

    Examples
    --------
    >>> load_factory("collections:OrderedDict").__name__
    'OrderedDict'
    >>> load_factory("collections:OrderdDict")
    Traceback (most recent call last):
    miaudit.errors.InputError: factory: expected a function of collections, received OrderdDict, which is not there;
    did you mean OrderedDict?
    """
    if not where.count(":"):
        refuse_pickle(where, "factory")
    module_name, colon, name = where.partition(":")
    if not colon or not module_name or not name:
        raise InputError("factory", "package.module:function", repr(where), "for example my_models:small_net")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # a module may raise anything
        received = f"{module_name}, which does not import ({one_line(f'{type(error).__name__}: {error}')[:160]})"
        raise InputError("factory", "a module that imports", received, "run from its folder, or install it") from error
    if not hasattr(module, name):
        hint = nearest(name, dir(module)) or "check the spelling"
        raise InputError("factory", f"a function of {module_name}", f"{name}, which is not there", hint)
    function = getattr(module, name)
    if not callable(function):
        raise InputError("factory", "a function", f"{where}, a {type(function).__name__}", "name a function")
    return function  # type: ignore[no-any-return]


def made_of(function: Callable[..., Any], where: str, options: Mapping[str, Any], argument: str) -> Any:
    """Call the code that a user named with the options of a configuration file, in which lists stand for tuples.

    Raises
    ------
    InputError
        For whatever it raises.
    """
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
    try:
        return function(**values)
    except Exception as error:  # whatever the named code raises
        if isinstance(error, InputError):
            raise
        received = f"{where}, which raises {type(error).__name__}: {str(error)[:160]}"
        raise InputError(argument, "code that accepts target.options", received, "check the options") from error


def described_function(function: Callable[..., Any]) -> str:
    """Name a function together with the digest of its source, so that an edited one has another description."""
    if isinstance(function, functools.partial):
        bound = [described(one) for one in (*function.args, *sorted(function.keywords.items()))]
        return f"partial({described_function(function.func)}, {bound})"
    source = _digest_of_source(function if hasattr(function, "__code__") else type(function))
    name = f"{getattr(function, '__module__', '')}.{called(function)}"
    closed = [described(cell.cell_contents) for cell in getattr(function, "__closure__", None) or ()]
    return f"{name} {_values(function)} {source} {closed}"


def _values(function: Any) -> str:
    """Describe what is called like a function, by the values that it was made with."""
    if hasattr(function, "__qualname__"):
        return ""
    return _record(function) if is_dataclass(function) else _without_addresses(repr(function))


def _record(record: Any) -> str:
    """Describe a record by the name of its class and its fields."""
    parts = [f"{field.name}={described(getattr(record, field.name))}" for field in fields(record)]
    return f"{type(record).__qualname__}({', '.join(parts)})"


def _digest_of_source(thing: Any) -> str:
    """Return the digest of a source, that of an empty one for what was made at a prompt, or compiled."""
    try:
        source = inspect.getsource(thing)
    except (OSError, TypeError):
        source = ""
    return hashlib.sha256(without_words(source).encode()).hexdigest()


def without_words(source: str) -> str:
    r"""Return code without comments, docstrings and layout; a part of a line that is no code by itself as it is.

    Examples
    --------
    >>> without_words("def f(x):\n    'Twice.'\n    return 2*x  # why")
    'def f(x):\n    return 2 * x'
    """
    try:
        tree = ast.parse(textwrap.dedent(source))
    except SyntaxError:  # a lambda among the arguments of a call
        return source
    for node in ast.walk(tree):
        documented = isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if documented and ast.get_docstring(node, clean=False) is not None:  # type: ignore[arg-type]
            node.body = node.body[1:] or [ast.Pass()]  # type: ignore[attr-defined]
    return ast.unparse(tree)


def own_source(kind: type) -> str:
    """Describe a class and its bases outside the libraries: an edited ``fit`` or ``forward`` is another model."""
    parts = []
    for one in kind.__mro__:
        package = one.__module__.partition(".")[0]
        if package in _LIBRARIES:
            continue
        version = getattr(sys.modules.get(package), "__version__", "")
        parts.append(f" {one.__module__}.{one.__qualname__} {version} {_digest_of_source(one)}")
    return "".join(parts)


def called(function: Callable[..., Any]) -> str:
    """Return the name of a function, or of the class of what is called like one."""
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def described(value: Any) -> str:
    """Return an option of a model as text that is the same in every process: arrays by digest, code by its source."""
    if isinstance(value, np.ndarray):
        return digest(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(described(one) for one in value)}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key!r}: {described(one)}' for key, one in value.items())}}}"
    if hasattr(value, "get_params") and not isinstance(value, type):
        kind = type(value)
        return f"{kind.__module__}.{kind.__qualname__}{own_source(kind)}"  # its parameters are listed by themselves
    if callable(value):
        return described_function(value)
    return _record(value) if is_dataclass(value) else _without_addresses(repr(value))


def _without_addresses(text: str) -> str:
    """Leave out where an object lies in memory, which is different in every process."""
    return text.partition(" at 0x")[0]
