"""What a result was made from, so that nothing is made twice from the same."""

import hashlib
import json
from pathlib import Path


def digest(*parts: bytes | str | Path) -> str:
    """A hash of texts and of the contents of files."""
    total = hashlib.sha256()
    for part in parts:
        content = part.read_bytes() if isinstance(part, Path) else part
        content = content.encode() if isinstance(content, str) else content
        total.update(hashlib.sha256(content).digest())
    return total.hexdigest()


def files_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def read(path: Path) -> dict:
    """A stamp; empty if there is none, or none that can be read."""
    try:
        stamp = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def write(path: Path, stamp: dict) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(stamp, indent=1) + "\n")
    partial.replace(path)
