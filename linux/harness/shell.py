"""Running other programs: each within a time, each gone when it ends or we do."""

import ctypes
import os
import shutil
import signal
import subprocess
from pathlib import Path

from .failure import Failure

MIB = 1 << 20

# Of linux/prctl.h.
PR_SET_PDEATHSIG = 1

# How we were started (chrt), before we left real time.
_POLICY = os.sched_getscheduler(0), os.sched_getparam(0)

# What a calling make or user may have set for builds of their own.
FOREIGN = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "ARCH", "CROSS_COMPILE", "KBUILD_OUTPUT", "O")


def environment(**more: str) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if name not in FOREIGN}
    return {**own, "LC_ALL": "C", **more}


def in_real_time() -> bool:
    """Whether other programs of this machine wait for guests (chrt -f)."""
    return _POLICY[0] in (os.SCHED_FIFO, os.SCHED_RR)


def leave_real_time() -> None:
    """
    Real time is for guests alone: a build in real time can keep a CPU from what it waits for itself,
    the host's own threads too, and then neither goes on.
    """
    if in_real_time():
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def begin(command: list, guest: bool = False, **popen) -> subprocess.Popen:
    """Starts a program that reads nothing, in a session of its own, and ends when we are killed."""
    libc = ctypes.CDLL(None)

    def prepare() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if guest and in_real_time():
            os.sched_setscheduler(0, *_POLICY)

    return subprocess.Popen(
        [str(word) for word in command],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=prepare,
        **popen,
    )


def stop(process: subprocess.Popen, grace_s: float = 5) -> None:
    """Ends a process and all that it started in its session."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
            process.wait(grace_s)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def run(command: list, what: str, seconds: float, log: Path | None = None, **popen) -> str:
    """Runs a command to its end and returns what it wrote (nothing, if it goes to a log).

    A failure says what was tried, and the last lines that were written.
    """
    popen.setdefault("env", environment())
    with open(log or os.devnull, "ab") as sink, begin(
        command, stdout=sink if log else subprocess.PIPE, **popen
    ) as process:
        try:
            said, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise Failure(f"{what}: not done after {seconds:.0f} s{where(log)}") from None
        finally:
            stop(process)
    text = (log.read_bytes() if log else said).decode(errors="replace")
    if process.returncode != 0:
        raise Failure(f"{what}: {outcome(process.returncode)}{where(log)}\n{last_lines(text)}")
    return text


def outcome(status: int) -> str:
    return f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"


def where(log: Path | None) -> str:
    return f" (log: {log})" if log else ""


def last_lines(text: str, count: int = 15) -> str:
    """The lines that say why: those with "error" and the last ones."""
    lines = text.rstrip().splitlines()
    errors = [line for line in lines[:-count] if "error:" in line.lower() or "No space" in line]
    return "\n".join(errors[:count] + lines[-count:])


def require_space(folder: Path, mib: int, what: str) -> None:
    """Fails before a disk runs full."""
    free = shutil.disk_usage(folder).free // MIB
    if free < mib:
        raise Failure(f"{what} needs {mib} MiB in {folder}, where {free} MiB are free")
