"""Explicit against fused attention by length: memory that grows as it must; traffic by formula against a count."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from model.analysis import attention_race
from model.analysis.attention_race import LENGTHS, Shape, contenders, cpu_peak, lengths, measure, own_kernel_starts
from model.analysis.flash_tiles import FlashAttention
from model.analysis.flash_traffic import BLOCKS, CHIPS, largest_block, on_chip, traffic
from model.kernels import Attended, Visible

SHAPE = Shape(1, 32, "float32", True)


def peaks(name, *sizes):
    return [measure(SHAPE, n, name, seconds=0, most=1).peak for n in sizes]


def test_the_fused_kernels_peak_memory_grows_linearly():
    """Each token more costs the same: its output and one number of its row. What a tile needs does not grow."""
    first, second, third = peaks("fused", 2048, 4096, 8192)
    a_token = 32 * 4 + 4
    assert second - first == 2048 * a_token
    assert third - second == 4096 * a_token
    assert first < 2048 * 2048 * 4, "less than one matrix of scores"


def test_the_explicit_kernels_peak_memory_grows_with_the_square():
    for n, peak in zip((256, 512, 1024), peaks("explicit", 256, 512, 1024), strict=True):
        assert peak / (n * n * 4) == pytest.approx(2.25, rel=0.01), "scores, masked ones, and the mask in bytes"


def test_the_peak_is_what_was_held_at_once():
    def run():
        a = torch.ones(1000)
        b = a + 1
        del a
        return b, torch.ones(250)

    assert 8000 <= cpu_peak(run) < 8100, "and no more than a scalar beside it"
    assert cpu_peak(lambda: torch.ones(10).sum()) in range(40, 256)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("causal", [True, False])
def test_a_point_says_what_ran(dtype, causal):
    shape = Shape(2, 16, dtype, causal)
    for name in contenders("cpu"):
        point = measure(shape, 128, name, seconds=0, most=2)
        assert (point.length, point.name, point.runs) == (128, name, 2)
        assert point.seconds > 0
        assert point.peak >= 2 * 128 * 16 * getattr(torch, dtype).itemsize, "at least the output"
        assert point.kernel in ({"explicit"} if name == "explicit" else {"flash", "math"})


def test_lengths_are_bounded_by_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lengths("cpu", 16_384) == [n for n in LENGTHS if n <= 4096]
    assert lengths("cpu", 512) == [128, 256, 512]
    for gib, heads, most in ((1, 1, 4_096), (4, 2, 8_192), (1, 32, 1_024), (80, 8, 16_384)):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device, gib=gib: (gib * 2**30, 80 * 2**30))
        assert lengths("cuda", 16_384, heads)[-1] == most
        assert most**2 * 3 * 4 * heads <= gib * 2**29
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1_000, 80 * 2**30))
    assert lengths("cuda", 16_384) == [128], "with hardly any memory left there is still something to measure"
    if not torch.cuda.is_available():
        assert list(contenders("cpu")) == ["explicit", "fused"]


def test_our_own_kernel_is_left_out_where_it_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton may be there and have no compiler, or not know the GPU: the other kernels are measured all the same."""

    def fails(*_: object) -> Attended:
        raise RuntimeError("Failed to find C compiler.")

    monkeypatch.setattr(attention_race, "own_kernel_runs", lambda device: True)
    try:
        monkeypatch.setattr(attention_race, "ours", fails)
        own_kernel_starts.cache_clear()
        with pytest.warns(UserWarning, match="does not start on cpu: Failed to find C compiler"):
            assert list(contenders("cpu")) == ["explicit", "fused"]
        for kernel, count in (("triton", 3), ("math", 2)):
            ran = Attended(torch.zeros(1), None, kernel)
            monkeypatch.setattr(attention_race, "ours", lambda *_, ran=ran: ran)
            own_kernel_starts.cache_clear()
            assert len(contenders("cpu")) == count
    finally:
        own_kernel_starts.cache_clear()


def test_a_gpu_is_timed_by_events_and_asked_for_its_own_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order that CUDA needs: both events around the call, read only when the second has passed."""
    done: list[str] = []

    class Event:
        count = 0

        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing
            Event.count += 1
            self.name = "begin" if Event.count == 1 else "end"

        def record(self) -> None:
            done.append(self.name)

        def synchronize(self) -> None:
            done.append(f"wait for {self.name}")

        def elapsed_time(self, end: "Event") -> float:
            done.append(f"{self.name} to {end.name}")
            return 2.5

    cuda = {"memory_allocated": 1_000, "max_memory_allocated": 5_000, "synchronize": None}
    for name, value in cuda.items():
        monkeypatch.setattr(torch.cuda, name, lambda name=name, value=value: done.append(name) or value)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: done.append("reset"))
    monkeypatch.setattr(torch.cuda, "Event", Event)
    assert attention_race._cuda_seconds(lambda: done.append("run")) == 0.0025
    assert done == ["begin", "run", "end", "wait for end", "begin to end"]
    done.clear()
    assert attention_race._cuda_peak(lambda: done.append("run")) == 4_000
    assert done == ["synchronize", "reset", "memory_allocated", "run", "synchronize", "max_memory_allocated"]


@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 50), st.integers(1, 50), st.booleans())
def test_the_traffic_is_that_of_the_tiles(n, d, block_q, block_k, causal):
    """Counted tile by tile, as the algorithm goes through them."""
    q = torch.zeros(1, 1, n, d)
    flash = FlashAttention(q, q, q, Visible(causal=causal), block_q=block_q, block_k=block_k)
    found = traffic(n, d, block_q, block_k, 2, causal=causal)
    moved = 2 * n * d  # q in, output out
    for place in flash.taken:
        moved += 2 * (place.last_key - place.first_key) * d  # k and v in
    assert found.tiles == len(flash.taken)
    assert found.tiled == 2 * moved + 4 * n
    assert found.plain == 2 * (4 * n * d + 4 * n * n)


def test_known_cases():
    # One tile that holds all: everything is moved once.
    assert traffic(64, 8, 64, 64, 2, causal=False).tiled == 2 * 4 * 64 * 8 + 4 * 64
    # Blocks twice as high halve how often k and v are read.
    one, two = (traffic(4096, 64, b, 64, 2, causal=False).tiled - 2 * 2 * 4096 * 64 - 4 * 4096 for b in (64, 128))
    assert one == 2 * two
    assert on_chip(64, 128, 64, 2) == (128 + 128) * 64 * 2 + 4 * (128 * 64 + 128 * 64 + 256)
    for d in (32, 64, 128):
        for kib in CHIPS.values():
            block = largest_block(d, 2, kib)
            assert on_chip(d, block, block, 2) <= kib * 1024
            assert on_chip(d, 2 * block, 2 * block, 2) > kib * 1024 or block == BLOCKS[-1]
    assert largest_block(10**6, 4, 1) == 1
    assert all(math.log2(block).is_integer() for block in BLOCKS)
    with pytest.raises(ValueError, match="at least 1"):
        traffic(0, 8, 1, 1, 2, causal=True)
