"""python -m tests.benchmarks [NAME …] [--list]: a table, and one JSON line last."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from datetime import date

import torch

from tests.benchmarks import engine, screen
from tests.benchmarks.measure import Result, busy_share

BENCHMARKS = {
    "trace": engine.trace,
    "decode": engine.decode,
    "hooks": engine.hooks,
    "start": screen.start,
    "slider": screen.slider,
    "page": screen.page,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}; all if none is given")
    parser.add_argument("--list", action="store_true", help="only list the names")
    args = parser.parse_args()
    if args.list:
        for name, benchmark in BENCHMARKS.items():
            print(f"{name:8} {(benchmark.__doc__ or '').splitlines()[0]}")
        return 0
    unknown = [name for name in args.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"there is no benchmark called {unknown[0]}; known are {', '.join(BENCHMARKS)}")
    busy = busy_share()
    if busy > 0.15:
        print(f"warning: the machine is {busy:.0%} busy with other things; figures will be off", file=sys.stderr)
    results: list[Result] = []
    for name in args.names or BENCHMARKS:
        for result in BENCHMARKS[name]():
            results.append(result)
            print(_line(result), flush=True)
    summary = {
        "date": date.today().isoformat(),
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}",
        "busy_before": round(busy, 3),
        "results": [result.__dict__ | {"reached": result.reached} for result in results],
    }
    print(json.dumps(summary))
    return 0


def _line(r: Result) -> str:
    other = "" if r.other is None else f" : {r.other:,.1f}"
    bound = "≤" if r.at_most else "≥"
    verdict = "reached" if r.reached else "MISSED"
    return (
        f"{r.name:8} {r.what:42} {r.ours:,.1f}{other} {r.unit:9} "
        f"{r.ratio:.2f} (target {bound} {r.target:g}) ±{r.spread:.0%}  {verdict}"
    )


if __name__ == "__main__":
    sys.exit(main())
