"""Building a kernel in a folder of its own."""

import os
import re
import shutil
import time
from pathlib import Path

from . import source, stamp
from .failure import Failure
from .layout import ENGINES, LINUX, Kernel, cache, logs
from .lock import locked
from .packages import BUILD, BUILD_X86, require
from .shell import environment, require_space, run

MAKE_SECONDS = 3600
GLUE_SECONDS = 900

# What the folder was made from, and with an allocator's name after it that allocator's kernel.
STAMP = ".woodlot"
# There while make runs: a folder in which it was killed is made anew.
UNFINISHED = ".woodlot-unfinished"

# The same kernel from the same source, whoever builds it and when.
REPRODUCIBLE = {
    "KBUILD_BUILD_USER": "woodlot",
    "KBUILD_BUILD_HOST": "woodlot",
    "KBUILD_BUILD_TIMESTAMP": "1970-01-01",
}


def extras() -> list[str]:
    """The further configurations that there are."""
    every = (LINUX / "config").glob("with-*.config")
    return sorted(path.stem.removeprefix("with-") for path in every)


def build(kernel: Kernel, tarball: Path, jobs: int) -> None:
    """Makes `kernel.image` what the source and the configuration say."""
    if kernel.arch == "x86":
        require(BUILD, BUILD_X86)
    else:
        require(BUILD)
    with locked("source"):
        tree = source.patched(kernel, tarball)
    # All that are made from one tree find their object in it.
    with locked(kernel.tree.name):
        build_locked(kernel, tree, jobs)


def build_locked(kernel: Kernel, tree: dict, jobs: int) -> None:
    inputs = {
        **tree["inputs"],
        "config": stamp.digest(config(kernel)),
        "compiler": run(["gcc", "--version"], "gcc --version", 60).splitlines()[0],
    }
    if kernel.allocator in ENGINES:
        inputs["object"] = place_object(kernel)
    said = kernel.folder / f"{STAMP}-{kernel.allocator}"
    if stamp.read(said) == inputs and kernel.image.exists():
        print(f"{kernel.name}: up to date")
        return
    same_source = stamp.read(kernel.folder / STAMP).get("pristine") == inputs["pristine"]
    if not same_source or (kernel.folder / UNFINISHED).exists():
        source.clean(kernel.folder)
    require_space(cache(), 600, f"building {kernel.name}")
    kernel.folder.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    log = logs() / f"build-{kernel.name}.log"
    log.unlink(missing_ok=True)
    print(f"building {kernel.name} with {jobs} jobs (log: {log})", flush=True)
    stamp.write(kernel.folder / STAMP, {"pristine": inputs["pristine"]})
    configure(kernel, log)
    (kernel.folder / UNFINISHED).touch()
    try:
        make(kernel, [f"-j{jobs}", "linux" if kernel.arch == "um" else "bzImage"], log)
    except Failure as failure:
        if "killed by" not in str(failure) and "not done after" not in str(failure):
            (kernel.folder / UNFINISHED).unlink()
        raise
    (kernel.folder / UNFINISHED).unlink()
    partial = kernel.image.with_suffix(".partial")
    shutil.copy(kernel.made, partial)
    partial.replace(kernel.image)
    stamp.write(said, inputs)
    print(f"{kernel.name}: built in {time.monotonic() - started:.0f} s: {kernel.image}")


def place_object(kernel: Kernel) -> str:
    """Has the glue build the allocator's object; returns its hash."""
    built = cache() / "build" / f"woodlot_rs-{kernel.allocator}-{kernel.arch}.o"
    built.parent.mkdir(parents=True, exist_ok=True)
    log = logs() / f"glue-{kernel.allocator}-{kernel.arch}.log"
    log.unlink(missing_ok=True)
    command = [LINUX / "glue" / "build", kernel.arch, kernel.allocator, built]
    run(command, "building the allocator", GLUE_SECONDS, log, env=dict(os.environ))
    source.place_object(kernel, built)
    return stamp.digest(built)


def config(kernel: Kernel) -> str:
    """What is configured; all that is not named is off."""
    names = ["common", kernel.arch, *(f"with-{extra}" for extra in kernel.extras)]
    names += ["woodlot"] if kernel.series == "woodlot" else []
    return "".join((LINUX / "config" / f"{name}.config").read_text() for name in names)


def configure(kernel: Kernel, log: Path) -> None:
    """Writes .config, and fails if the kernel does not take a line of ours as it is."""
    wanted = config(kernel)
    asked = kernel.folder / "woodlot.config"
    if asked.exists() and asked.read_text() == wanted and (kernel.folder / ".config").exists():
        return
    asked.unlink(missing_ok=True)
    partial = asked.with_suffix(".partial")
    partial.write_text(wanted)
    make(kernel, [f"KCONFIG_ALLCONFIG={partial}", "allnoconfig"], log)
    got = settings((kernel.folder / ".config").read_text())
    refused = [name for name, value in settings(wanted).items() if got.get(name, "n") != value]
    if refused:
        raise Failure(f"{kernel.name}: the kernel does not accept the setting of "
                      f"{', '.join(refused)}: a dependency is missing")
    partial.rename(asked)


def settings(text: str) -> dict[str, str]:
    return dict(re.findall(r"^(CONFIG_\w+)=(.*)$", text, re.M))


def make(kernel: Kernel, arguments: list[str], log: Path) -> None:
    arch = {"um": "um", "x86": "x86_64"}[kernel.arch]
    command = ["make", f"ARCH={arch}", f"O={kernel.folder}", *arguments]
    run(command, f"make for {kernel.name}", MAKE_SECONDS, log,
        cwd=kernel.tree, env=environment(**REPRODUCIBLE))
