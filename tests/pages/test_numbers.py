"""Numbers as they are printed, and the HTML tables of shares and facts."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pages.kit import mixture, numbers
from pages.kit.figures import Share, fact_list, number_table, share_table
from pages.kit.palette import DARK, LIGHT
from tests.pages.reading import AWKWARD, read


@pytest.mark.parametrize(
    ("value", "printed"),
    [(0, "0"), (0.0421, "0.0421"), (0.5, "0.500"), (3.14159, "3.14"), (57.32, "57.3"), (357.2, "357"),
     (1204.4, "1,204"), (-2.5, "−2.50"), (math.inf, "inf"), (1e-9, "0.000000")],
)  # fmt: skip
def test_three_digits(value: float, printed: str) -> None:
    assert numbers.three_digits(value) == printed


@pytest.mark.parametrize(
    ("value", "printed"),
    [(1.0, "1.000"), (0.2854, "0.285"), (0.001, "0.001"), (0.00034, "0.0003"), (0.0000321, "0.00003"),
     (4e-7, "< 0.000001"), (0.0, "0.000")],
)  # fmt: skip
def test_probability(value: float, printed: str) -> None:
    assert numbers.probability(value) == printed


@pytest.mark.parametrize(
    ("value", "printed"),
    [(-0.04213, "−0.0421"), (57.31, "57.3"), (0.0, "0"), (-3.5e5, "−3.5·10⁵"), (9.01e10, "9.0·10¹⁰"),
     (99_999, "99,999"), (math.inf, "inf")],
)  # fmt: skip
def test_signed_digits(value: float, printed: str) -> None:
    assert numbers.signed_digits(value) == printed


@pytest.mark.parametrize(
    ("share", "decimals", "printed"),
    [(0.1234, 1, "12.3%"), (0.9996, 0, "100%"), (-0.015, 1, "−1.5%"), (0, 1, "0.0%"), (0.0001, 1, "< 0.1%"),
     (0.002, 0, "< 1%"), (-1e-5, 1, "> −0.1%"), (0.0006, 1, "< 0.1%"), (0.0011, 1, "0.1%")],
)  # fmt: skip
def test_percent(share: float, decimals: int, printed: str) -> None:
    assert numbers.percent(share, decimals) == printed


def test_bits_and_powers_have_a_real_minus_and_no_negative_zero() -> None:
    assert [numbers.bits(value) for value in (3.183, -1e-9, 0.0)] == ["3.18", "0.00", "0.00"]
    assert numbers.power_of_ten(-2e-8) == "−2.0·10⁻⁸"


@pytest.mark.parametrize(
    ("low", "high", "inside", "printed"),
    [(0.25, 0.5, 0.3, ["0.2500", "0.5000", "0.3000"]),
     (0.970061, 0.970089, 0.97007, ["0.97006", "0.97009", "0.97007"]),
     (0.99999991, 0.99999994, 0.99999992, ["0.99999991", "0.99999994", "0.99999992"])],
)  # fmt: skip
def test_an_interval_has_the_digits_that_tell_its_ends_apart(
    low: float, high: float, inside: float, printed: list[str]
) -> None:
    assert numbers.interval(low, high, inside) == printed


def test_a_typed_number_is_printed_as_people_write_it() -> None:
    values = (1e9, 0.35, -3, 2**31, 0, 0.000001)
    assert [numbers.plain(value) for value in values] == [
        "1,000,000,000", "0.35", "−3", "2,147,483,648", "0", "0.000001"
    ]  # fmt: skip
    assert [numbers.plain(value) for value in (1e300, -1e15, 1e-300)] == ["1.0·10³⁰⁰", "−1.0·10¹⁵", "1.0·10⁻³⁰⁰"]


def test_units() -> None:
    assert numbers.milliseconds(0.01234) == "12.3"
    assert numbers.mebibytes(26_096_640) == "24.9"
    assert [numbers.short_count(n) for n in (7, 256, 3_328, 196_608, 6_524_160, 175_000_000_000)] == [
        "7", "256", "3.33 K", "197 K", "6.52 M", "175 G"
    ]  # fmt: skip
    assert numbers.shape((10, 8192)) == "10 × 8,192"


def test_shares_add_up_and_bars_are_as_long_as_the_counts() -> None:
    shares = [Share("a", 750, "used twice"), Share("b", 250), Share("c", 0), Share("d", 1_000_000)]
    fragment = share_table(shares, LIGHT, part_title="part", count_title="parameters", total="all")
    texts = read(fragment).texts
    assert "1,001,000" in texts
    assert "99.9%" in texts
    assert texts.count("< 0.1%") == 2
    assert "0.0%" in texts
    widths = [float(width) for width in re.findall(r"<i style='width:([\d.]+)%'", fragment)]
    assert widths == pytest.approx([0.07, 0.02, 0, 100], abs=0.01)


def test_a_table_that_scrolls_can_be_reached_by_the_tab_key() -> None:
    def frame(scrolls: bool) -> dict[str, str | None]:
        fragment = number_table(["a", "b"], [("x", ["1"])], LIGHT, description="said", scrolls=scrolls)
        return next(attrs for tag, attrs in read(fragment).tags if tag == "div")

    assert (frame(True)["tabindex"], frame(True)["role"], frame(True)["aria-label"]) == ("0", "region", "said")
    assert "tabindex" not in frame(False), "no stop where there is nothing to scroll"


def test_no_share_at_all() -> None:
    assert "0" in read(share_table([], DARK, part_title="", count_title="", total="all")).texts


def test_text_stays_text() -> None:
    plain = {tag for tag, _ in read(fact_list({"a": "b"}, LIGHT)).tags}
    for text in AWKWARD:
        facts = read(fact_list({text: text}, LIGHT))
        assert {tag for tag, _ in facts.tags} == plain
        shares = read(share_table([Share(text, 1, text)], LIGHT, part_title=text, count_title=text, total=text))
        assert not {"script", "br", "s"} & {tag for tag, _ in shares.tags}


def test_mixtures_are_written_as_they_are_read() -> None:
    heads = [(3, 2), (0, 7), (11, 11)]
    assert mixture.picked(mixture.written(heads)) == heads
    assert mixture.written([]) == mixture.LAYER
    assert mixture.heads(mixture.LAYER, 2, 6, 3) == [(2, 0), (2, 1), (2, 2)]
    assert len(mixture.heads(mixture.ALL, 2, 6, 8)) == 48
    assert mixture.heads("1.0-2.1", 5, 6, 8) == [(1, 0), (2, 1)]


@pytest.mark.parametrize(
    ("mix", "repaired"),
    [("layer", "layer"), ("all", "all"), ("3.2-3.2", "3.2"), ("9.9-1.1", "1.1"), ("9.9", "layer"), ("", "layer"),
     ("-1.2", "layer"), ("1.2;", "layer"), ("1.2-", "layer"), ("9999.1", "layer")],
)  # fmt: skip
def test_mixtures_are_repaired(mix: str, repaired: str) -> None:
    assert mixture.repaired(mix, 6, 8) == repaired


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1024, "1.00 KiB"),
        (2**31, "2.00 GiB"),
        (349e9, "325 GiB"),
        (2**51, "2.00 PiB"),
        (2**70, "1.00 ZiB"),
    ],
)
def test_memory(value: float, printed: str) -> None:
    assert numbers.memory(value).replace("\u00a0", " ") == printed


@pytest.mark.parametrize(
    ("value", "unit", "printed"),
    [(12, "FLOP", "12 FLOP"), (3.5e11, "FLOP", "350 GFLOP"), (3.35e12, "B/s", "3.35 TB/s"), (3.14e21, "", "3,140 E"),
     (3.14e25, "FLOP", "3.1·10²⁵ FLOP"), (999, "", "999")],
)  # fmt: skip
def test_with_prefix(value: float, unit: str, printed: str) -> None:
    assert numbers.with_prefix(value, unit).replace("\u00a0", " ") == printed


@pytest.mark.parametrize(("value", "printed"), [(6_524_160, "6.52 M"), (174_604_259_328, "175 B"), (1.4e12, "1.40 T")])
def test_count(value: float, printed: str) -> None:
    assert numbers.count(value).replace("\u00a0", " ") == printed


@given(st.floats(1e-4, 1), st.floats(1e-4, 1))
def test_a_printed_ratio_is_that_of_the_printed_numbers(one: float, other: float) -> None:
    decimals = numbers.decimals_of_ratio(one, other)
    assert decimals >= 2
    assert f"{float(f'{one:.{decimals}f}') / float(f'{other:.{decimals}f}'):.1f}" == f"{one / other:.1f}"


def test_a_ratio_takes_no_more_decimals_than_it_needs() -> None:
    assert numbers.decimals_of_ratio(0.5, 0.25) == 2
    assert numbers.decimals_of_ratio(0.1007, 0.0273) > 2
