"""A program of somebody else's, run in a process group of its own that ends with this process, however that ends."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

GRACE_SECONDS = 10.0  # between the request to end and the end, for launchers that have processes of their own
NOT_STARTED = 127

# A keeper stands between this process and the program. It reads its standard input, which ends when this process closes
# it or dies: then the program's whole group is ended, and without a last word the scratch folder is removed too.
_KEEPER = """
import os, shutil, signal, subprocess, sys, threading, time
scratch, grace, command = sys.argv[1], float(sys.argv[2]), sys.argv[3:]
alone = os.name == "posix"
try:
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=alone)
except OSError as error:
    print(f"{command[0]}: {error.strerror or error}", file=sys.stderr)
    sys.exit(127)

def send(number):
    try:
        os.killpg(child.pid, number) if alone else child.kill()
    except OSError:
        return False
    return True

def watch():
    last_word = os.read(0, 1)
    ending.set()
    until = time.monotonic() + grace
    send(signal.SIGTERM)
    while time.monotonic() < until and send(0):
        time.sleep(0.05)
    send(getattr(signal, "SIGKILL", signal.SIGTERM))
    if not last_word:
        shutil.rmtree(scratch, ignore_errors=True)
    os._exit(137)

ending = threading.Event()
watcher = threading.Thread(target=watch, daemon=True)
watcher.start()
code = child.wait()
if ending.is_set():
    watcher.join()
if alone:
    send(signal.SIGKILL)
os._exit(code if code >= 0 else 128 - code)
"""


@dataclass(frozen=True)
class Ended:
    """How a program ended: its exit code (128 and the signal's number where one ended it), or at its time limit."""

    code: int
    timed_out: bool = False


def run(
    command: Sequence[str],
    *,
    folder: Path,
    scratch: Path,
    log: IO[bytes],
    more: Mapping[str, str] | None = None,
    timeout: float | None = None,
) -> Ended:
    """Run a program to its end, or to its time limit; what it started in its process group ends with it.

    Parameters
    ----------
    command : the program and its arguments; no shell
    folder : where it runs
    scratch : a folder that is removed if this process dies before the program ends
    log : where its standard output and error go
    more : variables of its environment beside those of this process
    timeout : seconds; None for no limit
        Then, as on an interruption of this process, its group is asked to end, and killed ten seconds later.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place, tempfile.TemporaryFile() as log:
    ...     run([sys.executable, "-c", "exit(3)"], folder=Path(place), scratch=Path(place), log=log)
    Ended(code=3, timed_out=False)
    """
    environment = {**os.environ, **(more or {})}
    keeper = [sys.executable, "-I", "-S", "-c", _KEEPER, str(scratch), str(GRACE_SECONDS), *command]
    process = subprocess.Popen(  # noqa: S603 - what the user's configuration says, said before it runs
        keeper,
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=os.name == "posix",
    )
    try:
        return Ended(process.wait(timeout))
    except subprocess.TimeoutExpired:
        return Ended(_ended(process), timed_out=True)
    finally:
        _ended(process)


def _ended(process: subprocess.Popen[bytes]) -> int:
    """Close what the keeper reads, with a last word, and wait until it has ended the program."""
    if process.stdin is not None and not process.stdin.closed:
        with contextlib.suppress(OSError):
            process.stdin.write(b".")
        with contextlib.suppress(OSError):
            process.stdin.close()
    return process.wait()


def found(program: str, folder: Path) -> bool:
    """Whether a program is there: by its name on the path of commands, or by its path from a folder."""
    if os.sep in program or (os.altsep and os.altsep in program):
        return os.access(folder / program, os.X_OK)
    return shutil.which(program) is not None
