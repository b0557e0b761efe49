"""python -m tests.benchmarks [NAME …] [--list]: a table, and one JSON line last."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from dataclasses import asdict
from datetime import date

import torch

from tests.benchmarks import decode, engine, readers, screen
from tests.benchmarks.measure import Result, busy_share

BENCHMARKS = {
    "trace": engine.trace,
    "decode": engine.decode,
    "smollm2": decode.real_weights,
    "hooks": engine.hooks,
    "attention": engine.attention,
    "cache": engine.cache,
    "start": screen.start,
    "slider": screen.slider,
    "page": screen.page,
    "readers": readers.readers,
    "memory": readers.memory,
}
MAX_BUSY = 0.15


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}; all if none is given")
    parser.add_argument("--list", action="store_true", help="only list the names")
    args = parser.parse_args()
    if args.list:
        for name, benchmark in BENCHMARKS.items():
            print(f"{name:10} {(benchmark.__doc__ or '').splitlines()[0]}")
        return 0
    unknown = [name for name in args.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"there is no benchmark called {unknown[0]}; known are {', '.join(BENCHMARKS)}")
    print("| name | what | measured | target | spread |\n|---|---|---|---|---|", flush=True)
    results: list[Result] = []
    busiest = 0.0
    for name in args.names or BENCHMARKS:
        busy = busy_share()
        busiest = max(busiest, busy)
        if busy > MAX_BUSY:
            print(
                f"warning: before {name} the machine was {busy:.0%} busy with other things; its figures are off",
                file=sys.stderr,
                flush=True,
            )
        for result in BENCHMARKS[name]():
            results.append(result)
            print(_line(result), flush=True)
    summary = {
        "date": date.today().isoformat(),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, torch {torch.__version__}",
        "threads": torch.get_num_threads(),
        "busy_before": round(busiest, 3),
        "results": [asdict(result) | {"reached": result.reached} for result in results],
    }
    print(json.dumps(summary, ensure_ascii=False))
    return 0


def _line(r: Result) -> str:
    return f"| {r.name} | {r.what} | {r.measured} | {r.wanted} | ±{r.spread:.0%} |"


if __name__ == "__main__":
    sys.exit(main())
