"""What a run says about itself: CSV files for later, a line of progress for now."""

from __future__ import annotations

import csv
from dataclasses import asdict, dataclass, fields
from pathlib import Path


@dataclass(frozen=True)
class StepRow:
    """One row of metrics.csv: totals so far (steps, tokens, seconds, fraction of the run), loss in nats a token,
    the gradient's norm before clipping, the factor on the peak learning rates, and the rate since the last row."""

    step: int
    tokens: int
    seconds: float
    fraction: float
    loss: float
    gradient_norm: float
    rate_factor: float
    tokens_per_second: float


class Metrics:
    """Writes metrics.csv and evaluations.csv in `folder`.

    A resumed run continues the files of its first part; rows after the checkpoint's `step` are dropped, since
    those steps are made again.
    """

    def __init__(self, folder: Path, step: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._steps, self._evaluations = folder / "metrics.csv", folder / "evaluations.csv"
        for path in (self._steps, self._evaluations):
            _keep_until(path, step)

    def step(self, row: StepRow) -> None:
        """Add a row to metrics.csv."""
        _append(self._steps, [field.name for field in fields(row)], [_short(v) for v in asdict(row).values()])

    def evaluation(self, step: int, tokens: int, figures: dict[str, float]) -> None:
        """Add a row to evaluations.csv; one column a figure."""
        row = [str(step), str(tokens), *(f"{value:.5f}" for value in figures.values())]
        _append(self._evaluations, ["step", "tokens", *figures], row)


def progress_line(row: StepRow, seconds_left: float) -> str:
    """One line: step, fraction done, loss, gradient norm, rate, time left."""
    minutes, seconds = divmod(int(seconds_left), 60)
    return (
        f"step {row.step:6d}  {row.fraction:6.1%}  {row.tokens / 1e6:7.2f} M tokens  loss {row.loss:.4f}  "
        f"norm {row.gradient_norm:.2f}  rate ×{row.rate_factor:.3f}  {row.tokens_per_second:,.0f} tokens/s  "
        f"{minutes}:{seconds:02d} left"
    )


def _short(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6g}"


def _append(path: Path, header: list[str], row: list[str]) -> None:
    new = not path.is_file()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        if new:
            writer.writerow(header)
        writer.writerow(row)


def _keep_until(path: Path, step: int) -> None:
    if not path.is_file():
        return
    if step == 0:
        path.unlink()
        return
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    kept = [row for row in rows if int(row[0]) <= step]
    part = path.with_suffix(".part")
    with part.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *kept])
    part.replace(path)
