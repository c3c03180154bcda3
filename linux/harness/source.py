"""The kernel's source: extracted once, patched once for each allocator and architecture.

A folder is made under another name and renamed when it is complete; so one that was left half
done is never taken for whole.
"""

import os
import re
import shutil
from pathlib import Path

from . import stamp
from .failure import Failure
from .layout import LINUX, Kernel, cache
from .packages import FETCH, require, require_source
from .shell import require_space, run

STAMP = ".woodlot"
OBJECT = "mm/woodlot_rs.o_shipped"

# Patches, and files that are added, of each allocator's kernel. Those in um let User-Mode Linux run on
# this host.
SERIES = {
    "buddy": (LINUX / "bench", LINUX / "um"),
    "woodlot": (LINUX, LINUX / "bench", LINUX / "um"),
}


def fetch(tarball: Path) -> Path:
    """The folder with the source as it was packed."""
    require_source(tarball)
    require(FETCH)
    info = tarball.resolve().stat()
    inputs = {"tarball": str(tarball), "size": info.st_size, "mtime": info.st_mtime_ns}
    folder = cache() / "pristine"
    if stamp.read(folder / STAMP) == inputs:
        return folder
    partial = clean(cache() / "pristine.partial")
    print(f"extracting {tarball.name}", flush=True)
    require_space(cache(), 2300, "the kernel source")
    partial.mkdir()
    run(["tar", "xf", tarball, "-C", partial, "--strip-components=1"], "extracting", 600)
    version = version_of(partial)
    if not version.startswith("6.12."):
        clean(partial)
        raise Failure(f"{tarball} is Linux {version}; the patches are for 6.12")
    stamp.write(partial / STAMP, inputs)
    clean(folder)
    partial.rename(folder)
    return folder


def version_of(folder: Path) -> str:
    makefile = (folder / "Makefile").read_text() if (folder / "Makefile").is_file() else ""
    parts = [re.search(rf"^{name} = (\d+)$", makefile, re.M) for name in
             ("VERSION", "PATCHLEVEL", "SUBLEVEL")]
    return ".".join(part[1] if part else "?" for part in parts)


def patched(kernel: Kernel, tarball: Path) -> dict:
    """Makes `kernel.tree` what it should be; returns its stamp."""
    pristine = fetch(tarball)
    series = SERIES[kernel.series]
    patches = [path for folder in series for path in sorted((folder / "patches").glob("*.patch"))]
    added = {path.relative_to(folder / "src"): path
             for folder in series for path in stamp.files_below(folder / "src")}
    inputs = {
        "pristine": stamp.digest(pristine / STAMP),
        "patches": stamp.digest(*patches),
        "added": stamp.digest(*map(str, added), *added.values()),
    }
    old = stamp.read(kernel.tree / STAMP)
    if old.get("inputs") == inputs:
        return old
    print(f"patching {kernel.tree.name}", flush=True)
    partial = clean(kernel.tree.with_name(kernel.tree.name + ".partial"))
    partial.parent.mkdir(exist_ok=True)
    run(["cp", "-al", pristine, partial], "linking the source", 300)
    (partial / STAMP).unlink()
    changed = set()
    for patch in patches:
        # A file is written anew and renamed, which leaves what the link shared alone.
        command = ["patch", "-p1", "--no-backup-if-mismatch", "-i", patch]
        said = run(command, f"patch {patch.name}", 60, cwd=partial)
        changed |= set(re.findall(r"^patching file '?(.*?)'?(?: \(|$)", said, re.M))
    for name, path in added.items():
        (partial / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, partial / name)
        changed.add(str(name))
    if old.get("inputs", {}).get("pristine") == inputs["pristine"]:
        keep_times(kernel.tree, partial, changed | set(old["changed"]))
    if (kernel.tree / OBJECT).exists():
        (kernel.tree / OBJECT).rename(partial / OBJECT)
    new = {"inputs": inputs, "changed": sorted(changed)}
    stamp.write(partial / STAMP, new)
    clean(kernel.tree)
    partial.rename(kernel.tree)
    return new


def keep_times(old: Path, new: Path, names: set[str]) -> None:
    """Makes files that differ newer than the old ones, and the others as old as those, for make."""
    for name in names:
        before, after = old / name, new / name
        if not after.exists() or not before.exists():
            continue
        if before.read_bytes() == after.read_bytes():
            times = before.stat()
            os.utime(after, ns=(times.st_atime_ns, times.st_mtime_ns))
        elif after.stat().st_nlink > 1:
            content = after.read_bytes()
            after.unlink()
            after.write_bytes(content)


def place_object(kernel: Kernel, built: Path) -> None:
    """Puts the allocator's object where the kernel's make looks for it."""
    placed = kernel.tree / OBJECT
    if not placed.exists() or placed.read_bytes() != built.read_bytes():
        shutil.copyfile(built, placed)


def clean(path: Path) -> Path:
    """Removes a folder, if it is there."""
    if path.exists():
        shutil.rmtree(path)
    return path
