"""The training loop: one process or several, planned in steps or in time, resumable exactly."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from model.training.checkpoints import load_state, save_state
from model.training.dropout import add_dropout
from model.training.metrics import Metrics, StepRow, progress_line
from model.training.objectives import Objective
from model.training.optimizers import make_optimizers, set_rates
from model.training.schedule import Schedule


@dataclass(frozen=True)
class Settings:
    """What a run does; everything that decides its result.

    Either `steps` or `minutes` (of running time, wall clock) ends the run and plans the schedule; with `steps`
    the result is the same in every run on the same machine. A step reads `batch_tokens` tokens over all
    processes, at most `micro_tokens` at a time in each; sequences have `length` tokens, and `long_length` once
    the fraction `long_from` of the run is done. Peak learning rates are `muon_lr` and `adamw_lr`.

    Raises:
        ValueError: if both or none of `steps` and `minutes` are given, or a size does not fit.
    """

    steps: int | None = None
    minutes: float | None = None
    seed: int = 0
    batch_tokens: int = 8192
    micro_tokens: int = 2048
    length: int = 256
    long_length: int = 512
    long_from: float = 0.8
    muon: bool = True
    muon_lr: float = 0.02
    adamw_lr: float = 0.003
    weight_decay: float = 0.1
    dropout: float = 0.1
    clip: float = 1.0
    precision: str = "bf16"
    schedule: Schedule = field(default_factory=Schedule)

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.minutes is None):
            raise ValueError("Give either the number of steps or the minutes that the run may take.")
        if (self.steps or self.minutes or 0) <= 0:
            raise ValueError("A run needs at least one step, or some minutes.")
        if not 0 < self.length <= self.batch_tokens or not 0 < self.long_length <= self.batch_tokens:
            raise ValueError("A batch must hold at least one sequence.")
        if self.precision not in ("bf16", "fp32"):
            raise ValueError(f"The precision is {self.precision!r}; choose bf16 or fp32.")


@dataclass
class Progress:
    """Where a run is: steps done, tokens read, seconds spent (over all sessions), fraction done."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    fraction: float = 0.0


@dataclass
class Run:
    """One training run in this process. `evaluate`, where given, measures the model: its figures by name."""

    model: nn.Module
    objective: Objective
    settings: Settings
    out: Path
    evaluate: Callable[[], dict[str, float]] | None = None
    checkpoint_minutes: float = 5.0
    evaluate_minutes: float = 15.0
    log_seconds: float = 15.0
    compile: bool = False
    progress: Progress = field(default_factory=Progress)

    def __post_init__(self) -> None:
        s = self.settings
        self.rank = dist.get_rank() if dist.is_initialized() else 0
        self.world = dist.get_world_size() if dist.is_initialized() else 1
        for length in (s.length, s.long_length):
            if s.batch_tokens // length < self.world:
                raise ValueError(
                    f"A batch of {s.batch_tokens} tokens has no sequence for each of {self.world} processes."
                )
        self.model.requires_grad_(True)  # a loaded checkpoint's are off
        self.device = next(self.model.parameters()).device
        self.optimizers = make_optimizers(self.model, s.muon_lr, s.adamw_lr, s.weight_decay, s.muon)
        add_dropout(self.model, s.dropout)
        self.forward: nn.Module = self.model
        if self.world > 1:
            self.forward = DistributedDataParallel(self.model)
        if self.compile:
            self.forward = cast(nn.Module, torch.compile(self.forward))

    def resume(self) -> None:
        """Continue from the checkpoint in `out`.

        Raises:
            ValueError: if there is none, or it belongs to a run with other settings.
        """
        scalars = load_state(self.out, self.model, self.optimizers)
        here = asdict(self.settings)
        # A run planned in time may be given another length; nothing else may change under a resumed run.
        changed = [k for k, v in scalars["settings"].items() if here.get(k) != v and k != "minutes"]
        try:
            self.objective.restore(scalars["objective"])
        except ValueError as error:
            changed.append(str(error))
        if changed:
            raise ValueError(f"The checkpoint is of a run with other settings: {', '.join(changed)}.")
        self.progress = Progress(**scalars["progress"])

    def train(self) -> bool:
        """Train to the end; true if it was reached, false if the process was asked to stop (SIGTERM, SIGINT).

        In both cases the state is saved.

        Raises:
            FloatingPointError: if the gradient is not finite; the last checkpoint stays as it is.
        """
        self.model.train()
        metrics = Metrics(self.out, self.progress.step) if self.rank == 0 else None
        begun = time.monotonic() - self.progress.seconds
        first = replace(self.progress)
        logged = replace(self.progress)
        saved = evaluated = self.progress.seconds
        with _asked_to_stop() as asked:
            while True:
                seconds, stop = self._agree(time.monotonic() - begun, asked())
                self.progress.seconds = seconds
                self.progress.fraction = self._fraction()
                if stop or self.progress.fraction >= 1:
                    break
                factor = self.settings.schedule.factor(self.progress.step, self.progress.fraction)
                loss, norm = self.step(factor)
                if metrics is None:
                    continue
                now = self.progress.seconds = time.monotonic() - begun
                if now - logged.seconds >= self.log_seconds or self.progress.step == first.step + 1:
                    row = StepRow(
                        step=self.progress.step,
                        tokens=self.progress.tokens,
                        seconds=now,
                        fraction=self._fraction(),
                        loss=float(loss),
                        gradient_norm=float(norm),
                        rate_factor=factor,
                        tokens_per_second=(self.progress.tokens - logged.tokens) / (now - logged.seconds),
                    )
                    metrics.step(row)
                    print(progress_line(row, self._seconds_left(first)), flush=True)
                    logged = replace(self.progress)
                if self.evaluate is not None and now - evaluated >= self.evaluate_minutes * 60:
                    self._evaluate(metrics)
                    evaluated = time.monotonic() - begun
                if now - saved >= self.checkpoint_minutes * 60:
                    self.save()
                    saved = time.monotonic() - begun
        if self.rank == 0:
            self.save()
        if metrics is not None and self.evaluate is not None and not stop:
            self._evaluate(metrics)
        return not stop

    def step(self, factor: float) -> tuple[Tensor, Tensor]:
        """One optimizer step at `factor` times the peak rates; mean loss (nats a token) and gradient norm."""
        s = self.settings
        # A step's random numbers follow from three integers: nothing of the generator's state has to be kept,
        # and processes differ from each other.
        torch.manual_seed((s.seed * 1_000_003 + self.progress.step) * self.world + self.rank)
        length = s.long_length if self.progress.fraction >= s.long_from else s.length
        batch = self.objective.draw(s.batch_tokens, s.micro_tokens, length, self.rank, self.world)
        total = torch.zeros((), device=self.device)
        for i, part in enumerate(batch.parts):
            last = i == len(batch.parts) - 1
            with nullcontext() if last or self.world == 1 else self.forward.no_sync():  # type: ignore[operator]
                # Gradients of several processes are averaged, so each counts its share `world` times.
                loss = self._loss(part) * (self.world / batch.predicted)
                loss.backward()
            total += loss.detach()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), s.clip)
        if not math.isfinite(float(norm)):
            raise FloatingPointError(f"The gradient is not finite at step {self.progress.step + 1}.")
        set_rates(self.optimizers, factor)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        if self.world > 1:
            dist.all_reduce(total)
            total /= self.world
        self.progress.step += 1
        self.progress.tokens += batch.tokens
        return total, norm

    def save(self) -> None:
        """Write the checkpoint."""
        scalars = {
            "settings": asdict(self.settings),
            "progress": asdict(self.progress),
            "objective": self.objective.state(),
        }
        save_state(self.out, self.model, self.optimizers, scalars)

    def _loss(self, part: tuple[Tensor, ...]) -> Tensor:
        here = tuple(tensor.to(self.device) for tensor in part)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.settings.precision == "bf16"):
            return self.objective.loss(self.forward, here)

    def _fraction(self) -> float:
        if self.settings.steps is not None:
            return self.progress.step / self.settings.steps
        assert self.settings.minutes is not None
        return self.progress.seconds / (self.settings.minutes * 60)

    def _seconds_left(self, first: Progress) -> float:
        if self.settings.minutes is not None:
            return max(0.0, self.settings.minutes * 60 - self.progress.seconds)
        assert self.settings.steps is not None
        spent = self.progress.seconds - first.seconds
        return spent / (self.progress.step - first.step) * (self.settings.steps - self.progress.step)

    def _evaluate(self, metrics: Metrics) -> None:
        assert self.evaluate is not None
        figures = self.evaluate()
        metrics.evaluation(self.progress.step, self.progress.tokens, figures)
        shown = "  ".join(f"{name} {value:.4f}" for name, value in figures.items())
        print(f"held out at step {self.progress.step}: {shown}", flush=True)

    def _agree(self, seconds: float, stop: bool) -> tuple[float, bool]:
        """The first process' clock, and whether any process was asked to stop: the same in all of them."""
        if self.world == 1:
            return seconds, stop
        shared = torch.tensor(
            [seconds if self.rank == 0 else 0.0, float(stop)], dtype=torch.float64, device=self.device
        )
        dist.all_reduce(shared)
        return float(shared[0]), bool(shared[1] > 0)


@contextmanager
def _asked_to_stop() -> Iterator[Callable[[], bool]]:
    """Whether SIGTERM or SIGINT arrived since; the step in progress is finished first."""
    received: list[int] = []
    before = {}
    for number in (signal.SIGTERM, signal.SIGINT):
        before[number] = signal.signal(number, lambda got, _: received.append(got))
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
