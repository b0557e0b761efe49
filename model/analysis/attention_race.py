"""Explicit against fused attention by length: time and peak memory, measured on this machine, one point at a time."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from warnings import warn

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from model.kernels import Attended, Visible, explicit, fused, ours, own_kernel_runs

Kernel = Callable[[Tensor, Tensor, Tensor, Visible], Attended]
LENGTHS = (128, 256, 512, 1_024, 2_048, 4_096, 8_192, 16_384)
CPU_LONGEST = 4_096  # explicit attention of one head then takes 150 MB
_ONE_AT_A_TIME = threading.Lock()  # whoever else measures would spoil the time, and double the memory


@dataclass(frozen=True)
class Shape:
    """What is measured: `heads` heads of `d` numbers, one text."""

    heads: int
    d: int
    dtype: str
    causal: bool
    device: str = "cpu"


@dataclass(frozen=True)
class Point:
    """One kernel at one length.

    `seconds`: the fastest of `runs` runs, so that what else the machine does counts least. `peak`: bytes held at the
    worst moment, beyond q, k and v. `kernel`: the name of what ran.
    """

    length: int
    name: str
    seconds: float
    runs: int
    peak: int
    kernel: str


def contenders(device: str) -> dict[str, Kernel]:
    """The kernels to measure, by name; our own only where it runs."""
    known: dict[str, Kernel] = {"explicit": explicit, "fused": _fused_named}
    return known | ({"ours": ours} if own_kernel_starts(device) else {})


@cache
def own_kernel_starts(device: str) -> bool:
    """Whether our own kernel not only should run on a device but does, tried once.

    Triton compiles it when it is first called. It wants a C compiler for that, and knows no GPU newer than itself;
    without either the other kernels are still worth measuring.
    """
    place = torch.device(device)
    if not own_kernel_runs(place):
        return False
    try:
        x = torch.ones(1, 1, 16, 16, device=place, dtype=torch.float16)
        return ours(x, x, x, Visible(causal=True)).kernel == "triton"
    except Exception as fault:  # Triton's own errors, the compiler's, the driver's
        warn(f"Our own kernel does not start on {device}: {fault}", stacklevel=2)
        return False


def lengths(device: str, longest: int, heads: int = 1) -> list[int]:
    """Those of `LENGTHS` that a device can hold now, up to `longest`; the shortest in any case."""
    most = float(CPU_LONGEST)
    if torch.device(device).type == "cuda":
        # Half of what is free must do for the three matrices that the explicit kernel has at once.
        most = math.sqrt(torch.cuda.mem_get_info(torch.device(device))[0] / 2 / (3 * 4 * heads))
    return [n for n in LENGTHS if n <= max(min(longest, most), LENGTHS[0])]


def measure(shape: Shape, length: int, name: str, *, seconds: float = 0.25, most: int = 15) -> Point:
    """Run one kernel on random vectors: once to warm up, then for about `seconds` or `most` times, then once more
    watching memory.

    On a GPU time is taken with CUDA events and memory by torch's allocator; on the CPU memory is the largest sum of
    what torch's profiler saw allocated and not yet freed.

    Raises:
        KeyError: for a kernel that does not run there.
    """
    kernel = contenders(shape.device)[name]
    device, dtype = torch.device(shape.device), getattr(torch, shape.dtype)
    generator = torch.Generator().manual_seed(length)
    size = (1, shape.heads, length, shape.d)
    q, k, v = (torch.randn(size, generator=generator).to(device, dtype) for _ in range(3))
    visible = Visible(causal=shape.causal)

    def run() -> Attended:
        return kernel(q, k, v, visible)

    on_its_device = torch.cuda.device(device) if device.type == "cuda" else nullcontext()
    with torch.no_grad(), _ONE_AT_A_TIME, on_its_device:
        named = run().kernel
        clock = _cuda_seconds if device.type == "cuda" else _cpu_seconds
        spent: list[float] = []
        while len(spent) < 2 or (sum(spent) < seconds and len(spent) < most):
            spent.append(clock(run))
        peak = _cuda_peak(run) if device.type == "cuda" else cpu_peak(run)
        if device.type == "cuda":
            torch.cuda.empty_cache()  # what torch keeps for later is free memory to everybody else
    return Point(length, name, min(spent), len(spent), peak, named)


def cpu_peak(run: Callable[[], object]) -> int:
    """Bytes that torch held at the worst moment of a call, beyond what it held before."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as seen:
        kept = run()
    del kept
    assert seen.profiler is not None and seen.profiler.kineto_results is not None
    events = [(e.start_ns(), e.nbytes()) for e in seen.profiler.kineto_results.events() if e.name() == "[memory]"]
    held = peak = 0
    for _, change in sorted(events, key=lambda event: event[0]):  # freed memory counts below 0
        held += change
        peak = max(peak, held)
    return peak


def _cuda_peak(run: Callable[[], object]) -> int:
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def _cpu_seconds(run: Callable[[], object]) -> float:
    begun = time.perf_counter()
    run()
    return time.perf_counter() - begun


def _cuda_seconds(run: Callable[[], object]) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    run()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1e3


def _fused_named(q: Tensor, k: Tensor, v: Tensor, visible: Visible) -> Attended:
    return fused(q, k, v, visible, name_kernel=True)
