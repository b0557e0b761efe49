"""The benchmarks' own arithmetic. What they measure is never tested: no test depends on the time that it takes."""

import pytest

from tests.benchmarks.measure import Result, Sample, alternate, figure, printed, slowdown, speedup


def test_a_sample_has_a_median_a_spread_and_shares() -> None:
    sample = Sample((5.0, 1.0, 4.0, 2.0, 3.0))
    assert sample.median == 3
    assert sample.spread == pytest.approx(1 / 3)  # quartiles 2 and 4
    assert [sample.share(q) for q in (0.0, 0.2, 0.21, 0.95, 1.0)] == [1, 1, 2, 5, 5]
    assert Sample((7.0,)).spread == 0


def test_a_ratio_is_of_neighbours_in_time() -> None:
    ours, other = Sample((2.0, 20.0, 4.0)), Sample((1.0, 10.0, 1.0))
    slow = slowdown("n", "w", ours, other, target=1.5)
    assert (slow.value, slow.reached, slow.sides) == (2, False, (4000, 1000, "ms"))
    fast = speedup("n", "w", other, ours, target=2, amount=8)
    assert (fast.value, fast.reached, fast.sides) == (2, True, (8, 2, "tokens/s"))
    with pytest.raises(ValueError, match="longer"):
        slowdown("n", "w", Sample((1.0,)), other, target=None)


def test_a_line_tells_figure_and_target() -> None:
    one = figure("n", "w", Sample((0.1, 0.3, 0.2)), "ms", target=150, scale=1e3)
    assert (one.measured, one.wanted, one.reached) == ("200 ms", "≤ 150 ms (not reached)", False)
    two = Result("n", "w", 2.04, "×", 1.5, False, 0.0, (664.2, 331.0, "tokens/s"))
    assert (two.measured, two.wanted) == ("664 : 331 tokens/s = 2.04 ×", "≥ 1.50 ×")
    assert figure("n", "w", Sample((1.0,)), "s", target=None).wanted == ""
    assert [printed(value) for value in (1234.5, 12.34, 0.1234)] == ["1,234", "12.3", "0.12"]


def test_things_take_turns() -> None:
    done: list[str] = []
    samples = alternate(lambda: done.append("a"), lambda: done.append("b"), repeats=3, warm_up=1)
    assert done == ["a", "b"] * 4
    assert [len(sample.values) for sample in samples] == [3, 3]
