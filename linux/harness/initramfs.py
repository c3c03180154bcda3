"""The guest's userspace: busybox, the programs of linux/guest and init, packed without root."""

import gzip
import subprocess
from pathlib import Path

from . import stamp
from .layout import LINUX, Kernel, cache
from .shell import environment, run

BUSYBOX = Path("/bin/busybox")
GUEST = LINUX / "guest"


def initramfs(kernel: Kernel) -> Path:
    """The packed userspace, made by the program that the kernel's own build has made."""
    packed = cache() / "initramfs.cpio.gz"
    said = packed.with_suffix(".stamp")
    inputs = {"inputs": stamp.digest(BUSYBOX, *stamp.files_below(GUEST), Path(__file__))}
    if stamp.read(said) == inputs and packed.exists():
        return packed
    programs = cache() / "guest"
    programs.mkdir(exist_ok=True)
    sources = sorted(GUEST.glob("*.c"))
    for program in sources:
        command = ["gcc", "-O2", "-Wall", "-static", "-o", programs / program.stem, program]
        run(command, f"compiling {program.name}", 120)
    entries = [f"file /bin/{path.stem} {programs / path.stem} 755 0 0\n" for path in sources]
    listed = cache() / "initramfs.list"
    listed.write_text(
        "dir /bin 755 0 0\n"
        "dir /dev 755 0 0\n"
        "nod /dev/console 600 0 0 c 5 1\n"
        "nod /dev/null 666 0 0 c 1 3\n"
        "nod /dev/tty 666 0 0 c 5 0\n"
        f"file /bin/busybox {BUSYBOX} 755 0 0\n"
        f"file /init {GUEST / 'init'} 755 0 0\n"
        + "".join(entries)
    )
    pack(kernel, listed, packed)
    stamp.write(said, inputs)
    return packed


def pack(kernel: Kernel, listed: Path, packed: Path) -> None:
    """Packs what a list for the kernel's gen_init_cpio names."""
    generator = kernel.folder / "usr" / "gen_init_cpio"
    archive = subprocess.run([generator, "-t", "0", listed], check=True, timeout=60,
                             stdout=subprocess.PIPE, env=environment()).stdout
    packed.write_bytes(gzip.compress(archive, mtime=0))
