"""What must be installed. Nothing is installed here; it is only said how."""

import shutil
from pathlib import Path

from .failure import NO_SOURCE, Failure

TARBALL = Path("/usr/src/linux-source-6.12.tar.xz")

# What is looked for, and the Debian package that has it.
FETCH = {"tar": "tar", "xz": "xz-utils", "patch": "patch"}
BUILD = {
    "make": "make",
    "gcc": "gcc",
    "ld": "binutils",
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
    "perl": "perl",
    "/usr/include/stdlib.h": "libc6-dev",
    "/bin/busybox": "busybox-static",
}
# objtool, which checks the x86 kernel's code, reads ELF files.
BUILD_X86 = {"/usr/include/libelf.h": "libelf-dev"}
BOOT_X86 = {"qemu-system-x86_64": "qemu-system-x86"}


def missing(*tables: dict[str, str]) -> dict[str, str]:
    """Those that are not there, with the packages that have them."""
    wanted = {what: package for table in tables for what, package in table.items()}
    return {what: package for what, package in wanted.items() if not is_there(what)}


def to_install() -> list[str]:
    """The packages that are not there, of all that any verb needs."""
    found = missing({str(TARBALL): "linux-source-6.12"}, FETCH, BUILD, BUILD_X86, BOOT_X86)
    return sorted(set(found.values()))


def install_line(packages: list[str]) -> str:
    return "apt-get install -y --no-install-recommends " + " ".join(sorted(set(packages)))


def require(*tables: dict[str, str]) -> None:
    """Fails with all that is missing, and the command that installs it."""
    not_there = missing(*tables)
    if not_there:
        raise Failure(
            f"not found: {', '.join(not_there)}\n"
            f"install, as root: {install_line(list(not_there.values()))}"
        )


def is_there(what: str) -> bool:
    return Path(what).exists() if what.startswith("/") else shutil.which(what) is not None


def require_source(tarball: Path) -> None:
    if tarball.is_file():
        return
    how = f"install, as root: {install_line(['linux-source-6.12'])}" if tarball == TARBALL else ""
    raise Failure(f"the kernel source is not there: {tarball}\n{how}".strip(), NO_SOURCE)
