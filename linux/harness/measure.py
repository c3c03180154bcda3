"""Benchmarks: the kernels boot by turns, and what their guests measured is joined."""

import csv
import os
import platform
import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median

from .failure import Failure
from .guest import Machine, boot
from .layout import ROOT, Kernel
from .shell import in_real_time, run

FIGURES = ("alloc_ns_median", "alloc_ns_min", "free_ns_median", "free_ns_min",
           "pair_ns_median", "pair_ns_min")
ROW = ("pattern", "order", "threads", "runs", "allocs", "frees", *FIGURES)
KEY = ("pattern", "threads", "order")
STATE = ("iteration", "free_huge", "possible", "free_frames", "moves")


def by_turns(kernels: list[Kernel], machine: Machine, boots: int, seconds: float,
             job: Callable[[int], dict], columns: tuple[str, ...]) -> list[dict]:
    """Every row of every boot, with the allocator and the boot that it is of."""
    rows = []
    for number in range(1, boots + 1):
        for kernel in kernels:
            done = boot(kernel, machine, job(number), seconds)
            print(f"boot {number} of {boots}, {kernel.name}: {done.whole_s:.0f} s, "
                  f"load {os.getloadavg()[0]:.1f}", flush=True)
            for line in done.csv:
                values = line.split(",")
                if len(values) != len(columns):
                    raise Failure(f"{kernel.name}: \"{line}\" is not a row of {','.join(columns)}")
                row = dict(zip(columns, values))
                rows.append({"allocator": kernel.allocator, "boot": number, **row})
    return rows


def save(path: Path, rows: list[dict], kernel: Kernel, machine: Machine, load: float) -> None:
    """Writes rows as CSV, after lines that begin with # and say what was measured where."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="") as file:
        for line in origin(kernel, machine, load):
            file.write(f"# {line}\n")
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(f"written: {path}")


def origin(kernel: Kernel, machine: Machine, load: float) -> list[str]:
    cpuinfo = Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*: (.*)$", cpuinfo, re.M)
    processor = model[1] if model else platform.machine()
    kind = "User-Mode Linux, native" if kernel.arch == "um" else "x86_64, emulated by QEMU"
    return [
        f"commit {commit()}, {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC",
        f"{kind}: {machine.memory_mib} MiB, {machine.cpus} CPUs, {machine.nodes} nodes",
        f"on {os.cpu_count()} CPUs of {processor}, load {load:.1f} before and "
        f"{os.getloadavg()[0]:.1f} after" + (", in real time" if in_real_time() else ""),
    ]


def commit() -> str:
    try:
        git = ["git", "-C", ROOT]
        changed = [*git, "status", "--porcelain", "-uno", "--", ROOT, ":!linux/results"]
        dirty = run(changed, "git status", 30).strip()
        head = run([*git, "rev-parse", "--short=12", "HEAD"], "git rev-parse", 30).strip()
    except (Failure, OSError):
        return "unknown"
    return head + (" and changes" if dirty else "")


def numbers(rows: Iterable[dict], column: str) -> list[float]:
    return [float(row[column]) for row in rows if row[column] != ""]


def join(rows: list[dict]) -> list[dict]:
    """One row for each allocator and case: medians over the boots, their spread, and minima."""
    cases: dict[tuple, list[dict]] = {}
    for row in rows:
        cases.setdefault((row["allocator"], *(row[name] for name in KEY)), []).append(row)
    joined = []
    for case, same in cases.items():
        out = dict(zip(("allocator", *KEY), case), boots=len(same))
        for call in ("alloc", "free", "pair"):
            medians = numbers(same, f"{call}_ns_median")
            least = numbers(same, f"{call}_ns_min")
            out[f"{call}_ns"] = f"{median(medians):.1f}" if medians else ""
            out[f"{call}_ns_lowest"] = min(medians, default="")
            out[f"{call}_ns_highest"] = max(medians, default="")
            out[f"{call}_ns_min"] = min(least, default="")
        joined.append(out)
    return joined


def bench_table(joined: list[dict]) -> str:
    """Medians over the boots, in brackets the least and the largest of them."""
    allocators = list(dict.fromkeys(row["allocator"] for row in joined))
    found = {(row["allocator"], *(row[name] for name in KEY)): row for row in joined}
    lines = []
    for case in dict.fromkeys(key[1:] for key in found):
        pattern, threads, order = case
        for call in ("alloc", "free", "pair"):
            cells = []
            for allocator in allocators:
                row = found.get((allocator, *case))
                if not row or row[f"{call}_ns"] == "":
                    break
                cells.append(f"{row[f'{call}_ns']:>8} [{row[f'{call}_ns_lowest']:.1f} "
                             f"{row[f'{call}_ns_highest']:.1f}]")
            else:
                lines.append([pattern, threads, order, call, *cells])
    return table(["pattern", "threads", "order", "ns for", *allocators], lines)


def table(header: list[str], lines: list[list]) -> str:
    rows = [header, *([str(cell) for cell in line] for line in lines)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
    return "\n".join("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths)).rstrip()
                     for row in rows)


def bench(kernels: list[Kernel], machine: Machine, asked, out: Path) -> None:
    job = {"job": "bench", "bench_patterns": asked.patterns, "bench_orders": asked.orders,
           "bench_threads": asked.threads, "bench_runs": asked.runs, "bench_pairs": asked.pairs}
    load = os.getloadavg()[0]
    rows = by_turns(kernels, machine, asked.boots, asked.timeout, lambda _: job, ROW)
    if not rows:
        raise Failure("nothing was measured: remote needs an even number of threads")
    joined = join(rows)
    name = f"bench-{kernels[0].arch}"
    save(out / f"{name}-boots.csv", rows, kernels[0], machine, load)
    save(out / f"{name}.csv", joined, kernels[0], machine, load)
    print(bench_table(joined))


def frag(kernels: list[Kernel], machine: Machine, asked, out: Path) -> None:
    def job(number: int) -> dict:
        return {"job": "frag", "frag_iterations": asked.iterations, "frag_seed": number,
                "frag_movable": int(asked.movable)}
    load = os.getloadavg()[0]
    rows = by_turns(kernels, machine, asked.boots, asked.timeout, job, STATE)
    kind = "-movable" if asked.movable else ""
    save(out / f"frag-{kernels[0].arch}{kind}.csv", rows, kernels[0], machine, load)
    print(frag_table(rows))


def frag_table(rows: list[dict]) -> str:
    """Free huge frames after some of the iterations: medians over the boots, and their spread."""
    last = max(int(row["iteration"]) for row in rows)
    shown = sorted({0, 1, 5, 10, 20, 40, 60, 80, 100, 120, last} & set(range(last + 1)))
    lines = []
    for allocator in dict.fromkeys(row["allocator"] for row in rows):
        own = [row for row in rows if row["allocator"] == allocator]
        for iteration in shown:
            same = [row for row in own if int(row["iteration"]) == iteration]
            huge, possible, moves = (numbers(same, name)
                                     for name in ("free_huge", "possible", "moves"))
            lines.append([allocator, iteration, f"{median(huge):.0f}",
                          f"[{min(huge):.0f} {max(huge):.0f}]", f"{median(possible):.0f}",
                          f"{100 * median(huge) / median(possible):.1f} %",
                          f"{median(moves):.0f}"])
    return table(["allocator", "iteration", "free huge", "", "possible", "", "moves"], lines)
