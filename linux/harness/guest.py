"""Booting a kernel, and reading what its guest says."""

import os
import re
import selectors
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from .failure import Failure
from .initramfs import initramfs
from .layout import Kernel, logs
from .lock import locked
from .packages import BOOT_X86, require
from .shell import MIB, begin, environment, last_lines, outcome, stop

# What a kernel says only when something is wrong.
COMPLAINT = re.compile(
    r"WARNING:|\bBUG: |kernel BUG at|Oops|Kernel panic|Bad page|general protection|segfault|soft lockup|"
    r"rcu.*stall|blocked for more than|inconsistent lock state|stress failed: .*"
)
SAID = re.compile(r"guest> (userspace|say|csv|PASS|FAIL) ?(.*)")


@dataclass(frozen=True)
class Machine:
    """What the guest runs on."""

    memory_mib: int
    cpus: int = 1
    nodes: int = 1
    append: tuple[str, ...] = ()


@dataclass
class Boot:
    """What came out of a boot."""

    userspace_s: float = 0.0
    whole_s: float = 0.0
    csv: list[str] = field(default_factory=list)


def command(kernel: Kernel, machine: Machine, job: dict[str, object],
            userspace: Path | None = None) -> list[str]:
    """The program that is the guest, with a kernel command line that names the job."""
    if userspace is None:
        with locked("initramfs"):
            userspace = initramfs(kernel)
    # The guest holds the kernel's word against this one.
    job = {**job, "allocator": kernel.allocator}
    asked = [*machine.append, *(f"{name}={value}" for name, value in job.items())]
    if kernel.arch == "um":
        console = ["con=null", "con0=fd:0,fd:1", "console=tty0"]
        return [str(kernel.image), f"mem={machine.memory_mib}M", f"initrd={userspace}",
                *console, "panic=1", "loglevel=5", *asked]
    require(BOOT_X86)
    share = machine.memory_mib // machine.nodes
    nodes = []
    for node in range(machine.nodes if machine.nodes > 1 else 0):
        first, last = (machine.cpus * n // machine.nodes for n in (node, node + 1))
        nodes += ["-object", f"memory-backend-ram,id=m{node},size={share}M",
                  "-numa", f"node,nodeid={node},cpus={first}-{last - 1},memdev=m{node}"]
    # What free pages are reported to.
    balloon = ["-device", "virtio-balloon-pci,free-page-reporting=on"]
    return ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max",
            # Each in a socket of its own, so that it may belong to any node.
            "-smp", f"{machine.cpus},sockets={machine.cpus}", "-m", f"{share * machine.nodes}M", *nodes,
            *(balloon if "features" in kernel.extras else []),
            "-display", "none", "-monitor", "none", "-serial", "stdio", "-no-reboot", "-nodefaults",
            "-kernel", str(kernel.image), "-initrd", str(userspace),
            "-append", " ".join(["console=ttyS0", "panic=-1", "loglevel=5", *asked])]


def ram_folder(machine: Machine) -> Path:
    """Where User-Mode Linux keeps the guest's memory: a file, which should be on a tmpfs."""
    folder = Path(os.environ.get("TMPDIR", "/dev/shm"))
    free = shutil.disk_usage(folder).free // MIB
    if free < machine.memory_mib:
        raise Failure(f"the guest's memory of {machine.memory_mib} MiB lies in {folder}, where "
                      f"{free} MiB are free: ask for less with --mem, or set TMPDIR to another tmpfs")
    return folder


def environment_of(kernel: Kernel, machine: Machine) -> dict[str, str]:
    return environment(TMPDIR=str(ram_folder(machine))) if kernel.arch == "um" else environment()


def shell(kernel: Kernel, machine: Machine) -> None:
    """Gives the terminal to the guest until it powers off."""
    words = command(kernel, machine, {"job": "shell"})
    subprocess.run(words, env=environment_of(kernel, machine), check=False)


def boot(kernel: Kernel, machine: Machine, job: dict[str, object], seconds: float,
         aloud: bool = False, userspace: Path | None = None) -> Boot:
    """Boots, waits for the power-off, and fails unless the guest passed and nothing was wrong."""
    log = logs() / f"{kernel.name}-{job['job']}.log"
    words = command(kernel, machine, job, userspace)
    result, verdict, complaints = Boot(), "", []
    started = time.monotonic()
    with open(log, "wb") as sink, begin(
        words, guest=True, stdout=subprocess.PIPE, env=environment_of(kernel, machine)
    ) as process:
        sink.write((" ".join(words) + "\n").encode())
        try:
            for line in lines(process, started + seconds, sink):
                complaints += COMPLAINT.findall(line)
                said = SAID.search(line)
                match said.groups() if said else ("", ""):
                    case "userspace", _:
                        result.userspace_s = time.monotonic() - started
                    case "csv", row:
                        result.csv.append(row)
                    case "say", text if aloud:
                        print(f"  {text}", flush=True)
                    case ("PASS" | "FAIL") as verdict, why:
                        verdict = f"{verdict} {why}".strip()
            status = process.wait(10)
        except (TimeoutError, subprocess.TimeoutExpired):
            verdict, status = f"not done after {seconds:.0f} s, and ended", 0
        finally:
            stop(process)
    result.whole_s = time.monotonic() - started
    if status != 0:
        complaints.append(outcome(status))
    if verdict != "PASS" or complaints:
        raise Failure(f"{kernel.name}, {job['job']}: {verdict or 'no verdict of the guest'}"
                      f"{''.join(f'; {text}' for text in complaints[:5])} (log: {log})\n"
                      f"{last_lines(log.read_text(errors='replace'), 10)}")
    return result


def lines(guest: subprocess.Popen, deadline: float, sink):
    """The guest's lines as they come; a TimeoutError at the deadline."""
    pending = b""
    with selectors.DefaultSelector() as ready:
        ready.register(guest.stdout, selectors.EVENT_READ)
        while True:
            if not ready.select(max(0.0, deadline - time.monotonic())):
                raise TimeoutError
            data = os.read(guest.stdout.fileno(), 1 << 16)
            if not data:
                break
            sink.write(data)
            *whole, pending = (pending + data).split(b"\n")
            for line in whole:
                yield line.decode(errors="replace").rstrip("\r")
    if pending:
        yield pending.decode(errors="replace")
