"""Where everything lies: in the repository, and in the cache.

    cache/pristine/6.12.117/           the source as Debian packs it
    cache/source/woodlot-um/           the same, patched (unpatched files are hard links)
    cache/build/woodlot-um/            a build folder; both engines' kernels are linked there
    cache/build/woodlot-um/llfree      what is booted, named after its allocator
    cache/initramfs-um.cpio.gz         the userspace
    cache/logs/                        what make and the guests said
"""

import os
from dataclasses import dataclass
from pathlib import Path

LINUX = Path(__file__).resolve().parent.parent
ROOT = LINUX.parent

ARCHES = ("um", "x86")
ENGINES = ("llfree", "onewrite")


def cache() -> Path:
    """The folder that all files are written to."""
    chosen = os.environ.get("WOODLOT_LINUX_CACHE")
    return Path(chosen).absolute() if chosen else Path.home() / ".cache" / "woodlot-linux"


def logs() -> Path:
    folder = cache() / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@dataclass(frozen=True)
class Kernel:
    """A kernel that can be built: its architecture, its allocator, and further configuration."""

    arch: str
    # An engine, or "buddy".
    allocator: str
    extras: tuple[str, ...] = ()

    @property
    def series(self) -> str:
        """Whose patches it has. The engines differ in one object."""
        return "woodlot" if self.allocator in ENGINES else self.allocator

    @property
    def tree(self) -> Path:
        """The patched source."""
        return cache() / "source" / f"{self.series}-{self.arch}"

    @property
    def name(self) -> str:
        return "-".join((self.allocator, self.arch, *self.extras))

    @property
    def folder(self) -> Path:
        """The build folder."""
        return cache() / "build" / "-".join((self.series, self.arch, *self.extras))

    @property
    def made(self) -> Path:
        """What make makes."""
        return self.folder / ("linux" if self.arch == "um" else "arch/x86/boot/bzImage")

    @property
    def image(self) -> Path:
        """What is booted: a copy, which stays where make links another engine."""
        return self.folder / self.allocator
