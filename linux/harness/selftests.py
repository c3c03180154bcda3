"""The kernel's own tests of its memory management, in guests of all kernels, side by side.

Those are run that need no other library than libc, one file each, and no feature that is off here:
huge pages of user space, page migration, or a second machine type.
"""

from pathlib import Path

from . import stamp
from .failure import Failure
from .guest import Machine, boot
from .initramfs import initramfs, pack
from .layout import Kernel, cache
from .lock import locked
from .measure import table
from .shell import run

TESTS = (
    "compaction_test", "droppable", "ksm_functional_tests", "madv_populate", "map_fixed_noreplace",
    "map_populate", "mdwe_test", "mkdirty", "mlock2-tests", "mrelease_test", "mremap_dontunmap",
    "mremap_test", "mseal_test", "on-fault-limit", "pagemap_ioctl", "soft-dirty",
    "split_huge_page_test", "virtual_address_range",
)

FLAGS = ("-w", "-O2", "-U_FORTIFY_SOURCE", "-static", "-no-pie", "-D_GNU_SOURCE")

# Exit statuses as kselftest has them; timeout's own is 143.
MEANING = {0: "pass", 1: "fail", 4: "skip", 143: "time out"}


def build(kernel: Kernel) -> list[Path]:
    """Compiles the tests against the headers of their kernel; returns the programs."""
    folder = cache() / "selftests"
    programs = [folder / name for name in TESTS]
    tree = kernel.tree
    inputs = {"inputs": stamp.digest(tree / "Makefile", Path(__file__))}
    if stamp.read(folder / "stamp") == inputs:
        return programs
    print("compiling the selftests", flush=True)
    folder.mkdir(exist_ok=True)
    headers = cache() / "build" / "headers"
    headers.mkdir(parents=True, exist_ok=True)
    run(["make", "ARCH=x86_64", f"O={headers}", "headers"], "make headers", 600, cwd=tree)
    here = tree / "tools/testing/selftests/mm"
    include = [f"-I{tree}", f"-I{tree}/tools/include/uapi",
               "-isystem", headers / "usr/include"]
    for program in programs:
        command = ["gcc", *FLAGS, *include, "-o", program, f"{program.name}.c", "vm_util.c",
                   "thp_settings.c", "-lrt", "-lpthread"]
        run(command, f"compiling {program.name}", 120, cwd=here)
    stamp.write(folder / "stamp", inputs)
    return programs


def userspace(kernel: Kernel) -> Path:
    """The guest's userspace with the tests beside it: the kernel unpacks one archive after the other."""
    with locked("initramfs"):
        both = cache() / "initramfs-selftests.cpio.gz"
        programs = build(kernel)
        listed = both.with_suffix(".list")
        listed.write_text("dir /selftests 755 0 0\n" + "".join(
            f"file /selftests/{path.name} {path} 755 0 0\n" for path in programs
        ))
        pack(kernel, listed, both)
        both.write_bytes(initramfs(kernel).read_bytes() + both.read_bytes())
    return both


def selftests(kernels: list[Kernel], machine: Machine, seconds: float) -> None:
    """Runs every test in each kernel; fails where Woodlot's does worse than Linux's own."""
    found: dict[str, list[str]] = {name: [] for name in TESTS}
    for kernel in kernels:
        jobs = {"job": "selftests"}
        done = boot(kernel, machine, jobs, seconds, userspace=userspace(kernel))
        said = dict(line.rsplit(",", 1) for line in done.csv)
        for name, results in found.items():
            status = int(said[name])
            results.append(MEANING.get(status, f"status {status}"))
    print(table(["selftest", *(kernel.allocator for kernel in kernels)],
                [[name, *results] for name, results in found.items()]))
    worse = [name for name, (first, *others) in found.items()
             if first == "pass" and any(other != "pass" for other in others)]
    if worse:
        raise Failure(f"pass with Linux's own allocator only: {', '.join(worse)}")
