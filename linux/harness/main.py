"""The command line."""

import argparse
import errno
import os
import re
import signal
import sys
from pathlib import Path

from . import guest, measure, source
from .failure import USAGE, Failure
from .guest import Machine
from .kernel import build, extras
from .layout import ARCHES, ENGINES, ROOT, Kernel
from .lock import locked
from .selftests import selftests
from .packages import BOOT_X86, BUILD, BUILD_X86, FETCH, TARBALL, install_line, to_install
from .shell import leave_real_time

DESCRIPTION = """\
Linux 6.12 with Woodlot's page allocator (one of two engines, or, with --buddy, with its own): built,
booted, measured and tested, without root.

  um     User-Mode Linux: the kernel is a process, at full speed, with one CPU
  x86    a PC emulated by QEMU, with as many CPUs and nodes of memory as you like"""

EPILOG = f"""\
All files are written to WOODLOT_LINUX_CACHE (default: ~/.cache/woodlot-linux; 2 GiB, and up to
0.4 GiB for each kernel). boot, bench, frag and test build what is not up to date.

Nothing is installed. On Debian this is what is needed, as root:
  {install_line(["linux-source-6.12", *FETCH.values(), *BUILD.values(), *BUILD_X86.values()])}
and for x86:
  {install_line(list(BOOT_X86.values()))}"""


# What runs in several kernels, one after the other.
COMPARING = ("bench", "frag", "selftests")


def size(text: str) -> int:
    """Memory in MiB."""
    found = re.fullmatch(r"(\d+)([MG])", text)
    mib = int(found[1]) * {"M": 1, "G": 1024}[found[2]] if found else 0
    if mib < 64:
        raise argparse.ArgumentTypeError(f"{text} is not a size of 64M or more, such as 512M or 4G")
    return mib


def count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 on")
    return int(text)


def some_of(*allowed: str):
    """Words with commas between them, each of which must be allowed."""
    def words(text: str) -> str:
        for word in text.split(","):
            if word not in allowed:
                raise argparse.ArgumentTypeError(f"\"{word}\" is none of {', '.join(allowed)}")
        return text
    return words


def numbers(text: str) -> str:
    for word in text.split(","):
        count(word)
    return text


def parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    top = argparse.ArgumentParser("linux/run", description=DESCRIPTION, epilog=EPILOG,
                                  formatter_class=raw, allow_abbrev=False)
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(name: str, text: str, arch: str | None = None, machine: bool = True):
        added = verbs.add_parser(name, help=text, description=text, allow_abbrev=False)
        added.add_argument("--source", type=Path, default=TARBALL, metavar="FILE",
                           help=f"the kernel source, of any 6.12 [default: {TARBALL}]")
        if name == "fetch":
            return added
        if arch:
            added.add_argument("arch", choices=ARCHES, nargs="?", default=arch)
        else:
            added.add_argument("arch", choices=ARCHES)
        only = "only the kernel" if name in COMPARING else "the kernel"
        which = added.add_mutually_exclusive_group()
        which.add_argument("--buddy", action="store_true",
                           help=f"{only} with Linux's own allocator")
        if name in COMPARING:
            which.add_argument("--engine", type=some_of(*ENGINES), metavar="LIST",
                               default=",".join(ENGINES),
                               help="the kernels with these beside Linux's own [default: %(default)s]")
        else:
            which.add_argument("--engine", choices=ENGINES, default=ENGINES[0],
                               help="the kernel with this engine [default: %(default)s]")
        added.add_argument("--with", dest="extras", type=some_of(*extras()), metavar="LIST",
                           help=f"further configuration: {', '.join(extras())}")
        added.add_argument("--jobs", type=count, default=os.cpu_count(), metavar="N",
                           help="how many files are compiled at once [default: as many as CPUs]")
        if machine:
            added.add_argument("--mem", type=size, default="4G", metavar="SIZE",
                               help="memory of the guest [default: %(default)s]")
            added.add_argument("--cpus", type=count, metavar="N",
                               help="CPUs of the guest, x86 only [default: 2]")
            added.add_argument("--nodes", type=count, default=1, metavar="N",
                               help="nodes of memory, x86 only [default: 1]")
            added.add_argument("--append", action="append", default=[], metavar="WORD",
                               help="a word more on the kernel's command line")
            added.add_argument("--timeout", type=count, metavar="SECONDS",
                               default=300 if name == "boot" else 1800,
                               help="for each boot [default: %(default)s]")
        return added

    text = "Print the Debian packages that are needed and not there"
    verbs.add_parser("packages", help=text, description=text)
    verb("fetch", "Extract the kernel source")
    verb("build", "Build a kernel", machine=False)
    one = verb("boot", "Boot to userspace, check the zones' counts, and power off")
    one.add_argument("--times", type=count, default=1, metavar="N", help="boot so many times")
    one.add_argument("--shell", action="store_true", help="a shell on this terminal instead")
    for name, text in (("bench", "Measure allocations and frees, the kernels by turns"),
                       ("frag", "Measure fragmentation (LLFree section 5.6), the kernels by turns")):
        many = verb(name, text, arch="um")
        many.add_argument("--boots", type=count, default=3, metavar="N",
                          help="boots of each kernel [default: %(default)s]")
        many.add_argument("--out", type=Path, default=ROOT / "woodlot-out" / "linux", metavar="FOLDER",
                          help="where the CSV files go [default: woodlot-out/linux]")
        if name == "frag":
            many.add_argument("--iterations", type=count, default=120, metavar="N",
                              help="[default: %(default)s]")
            many.add_argument("--movable", action="store_true",
                              help="frames as for processes, not as for the kernel")
            continue
        all_patterns = ("bulk", "random", "repeat", "remote", "exit-storm")
        many.add_argument("--patterns", type=some_of(*all_patterns), metavar="LIST",
                          default=",".join(all_patterns), help="[default: %(default)s]")
        many.add_argument("--orders", type=some_of(*map(str, range(11))), default="0,3,4,8,9,10",
                          metavar="LIST", help="[default: %(default)s]")
        many.add_argument("--threads", type=numbers, metavar="LIST",
                          help="[default: 1 and as many as CPUs]")
        many.add_argument("--runs", type=count, default=5, metavar="N",
                          help="runs whose median is taken in the kernel [default: %(default)s]")
        many.add_argument("--pairs", type=count, metavar="N",
                          help="pairs in a run of repeat [default: 200000, emulated 20000]")
    tested = verb("test", "Write, share, exhaust and recover memory; check every zone's count")
    tested.add_argument("--seconds", type=count, default=10, metavar="N",
                        help="for each of the steps that take time [default: %(default)s]")
    verb("selftests", "Run the kernel's own tests of its memory management, in each kernel")
    return top


def kernel(asked, allocator: str) -> Kernel:
    return Kernel(asked.arch, allocator, tuple((asked.extras or "").split(",")) if asked.extras else ())


def machine(asked) -> Machine:
    cpus = asked.cpus or (1 if asked.arch == "um" else 2)
    if asked.arch == "um" and (cpus, asked.nodes) != (1, 1):
        raise Failure("User-Mode Linux 6.12 has one CPU and one node: use x86", USAGE)
    if not asked.nodes <= cpus <= 16:
        raise Failure(f"{cpus} CPUs on {asked.nodes} nodes: give 1 to 16 CPUs, and one or more for "
                      "each node", USAGE)
    return Machine(asked.mem, cpus, asked.nodes, tuple(asked.append))


def built(asked, allocator: str) -> Kernel:
    wanted = kernel(asked, allocator)
    build(wanted, asked.source, asked.jobs)
    return wanted


def boot(asked, allocator: str) -> None:
    on = machine(asked)
    one = built(asked, allocator)
    if asked.shell:
        guest.shell(one, on)
        return
    times = []
    for number in range(1, asked.times + 1):
        done = guest.boot(one, on, {"job": "boot"}, asked.timeout, aloud=number == 1)
        times.append(done.userspace_s)
        print(f"{one.name}: boot {number} of {asked.times}: userspace after "
              f"{done.userspace_s:.2f} s, powered off after {done.whole_s:.2f} s", flush=True)


def test(asked, allocator: str) -> None:
    on = machine(asked)
    one = built(asked, allocator)
    features = "features" in one.extras
    job = {"job": "test", "test_seconds": asked.seconds, "features": int(features),
           "reporting": int("reporting" in one.extras)}
    if features:
        job["page_owner"] = "on"
    done = guest.boot(one, on, job, asked.timeout, aloud=True)
    print(f"{one.name}: PASS after {done.whole_s:.0f} s; {on.memory_mib} MiB, {on.cpus} CPUs, "
          f"{on.nodes} nodes")


def compare(asked) -> None:
    on = machine(asked)
    if asked.verb == "bench":
        asked.threads = asked.threads or ",".join(dict.fromkeys(("1", str(on.cpus))))
        asked.pairs = asked.pairs or (200000 if asked.arch == "um" else 20000)
        if most := [word for word in asked.threads.split(",") if int(word) > on.cpus]:
            raise Failure(f"{most[0]} threads need as many CPUs, and the guest has {on.cpus}", USAGE)
    allocators = ["buddy"] if asked.buddy else ["buddy", *asked.engine.split(",")]
    kernels = [built(asked, allocator) for allocator in allocators]
    if asked.verb == "selftests":
        selftests(kernels, on, asked.timeout)
    else:
        getattr(measure, asked.verb)(kernels, on, asked, asked.out)


def perform(asked) -> None:
    allocator = "buddy" if getattr(asked, "buddy", False) else getattr(asked, "engine", None)
    match asked.verb:
        case "packages":
            print(" ".join(to_install()))
        case "fetch":
            with locked("source"):
                folder = source.fetch(asked.source)
            print(f"Linux {source.version_of(folder)}: {folder}")
        case "build":
            built(asked, allocator)
        case "boot":
            boot(asked, allocator)
        case "test":
            test(asked, allocator)
        case _:
            compare(asked)


def main() -> int:
    # As Ctrl-C does, it ends what was started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    leave_real_time()
    try:
        perform(parser().parse_args())
    except Failure as failure:
        print(f"linux/run: {failure}", file=sys.stderr)
        return failure.status
    except OSError as error:
        full = "the disk is full: " if error.errno == errno.ENOSPC else ""
        print(f"linux/run: {full}{error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("linux/run: interrupted", file=sys.stderr)
        return 130
    return 0
