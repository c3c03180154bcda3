"""One at a time, where several linux/run may use one cache."""

import fcntl
from contextlib import contextmanager

from .layout import cache


@contextmanager
def locked(what: str):
    """Waits until no other linux/run holds the lock of this name."""
    folder = cache() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / what, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for another linux/run that makes {what} in {cache()}", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
