"""The race: the same text and logits in both lanes, work counted, whoever has spent less goes next."""

import pytest

from model.analysis import cache_race
from model.analysis.cache_race import Race
from model.language import LanguageModel
from model.sampling import SamplingSettings
from tests.model.tiny import tiny

PROMPT = [3, 7, 9, 11]


def ran(race: Race) -> Race:
    while not race.done:
        race.advance()
    return race


def test_both_lanes_write_what_generate_writes(storyteller: LanguageModel) -> None:
    ids = storyteller.tokenizer.encode("One day, a little dog")
    race = ran(Race(storyteller.transformer, ids, 12))
    steps = storyteller.generate(ids, 12, SamplingSettings(temperature=0))
    assert race.text == [step.id for step in steps]
    assert race.agreed == race.compared == 12
    assert race.largest_difference < 1e-3
    assert race.cached.tokens_read == len(ids) + 11
    assert race.uncached.tokens_read == sum(len(ids) + i for i in range(12))
    assert race.cached.cache is not None and race.cached.cache.length == len(ids) + 11


@pytest.mark.parametrize("positions", ["rope", "learned", "sinusoidal", "alibi", "none"])
def test_cached_logits_are_uncached_logits(positions: str) -> None:
    race = ran(Race(tiny(positions=positions), PROMPT, 20))
    assert race.compared == 20
    assert race.largest_difference <= 1e-5 + 1.3e-6 * 10


def test_a_difference_is_found() -> None:
    """The check has teeth: a cache that is disturbed shows in it."""
    race = Race(tiny(), PROMPT, 6)
    race.advance()
    assert race.cached.cache is not None
    race.cached.cache._dense[1] += 1
    ran(race)
    assert race.largest_difference > 1e-2


def test_the_lane_that_has_spent_less_goes_next(monkeypatch: pytest.MonkeyPatch) -> None:
    spent = {True: 1, False: 3}

    class Clock:
        now = 0.0

        def perf_counter(self) -> float:
            return self.now

    watch = Clock()
    monkeypatch.setattr(cache_race, "time", watch)
    race = Race(tiny(), PROMPT, 6)
    order = []
    for lane in (race.cached, race.uncached):
        forward = lane._transformer

        def slow(*args, lane=lane, forward=forward, **kwargs):
            order.append(lane.cached)
            watch.now += spent[lane.cached]
            return forward(*args, **kwargs)

        slow.device = forward.device
        lane._transformer = slow
    ran(race)
    assert order[:8] == [True, False, True, True, True, False, True, True]
    assert race.ratio == pytest.approx(3)
    assert race.cached.tokens_per_second == pytest.approx(1)
    assert race.uncached.tokens_per_second == pytest.approx(1 / 3)


def test_of_a_long_text_only_some_places_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_race, "PENDING_BYTES", 4 * 50 * 5)
    race = ran(Race(tiny(), PROMPT, 20))
    assert race.compared == 5
    assert race.agreed == 20


def test_an_unfinished_race_has_a_ratio_of_what_both_wrote() -> None:
    race = Race(tiny(), PROMPT, 6)
    assert race.ratio is None
    assert race.cached.tokens_per_second is None
    race.advance()
    race.advance()
    assert race.ratio == pytest.approx(race.uncached.milliseconds[0] / race.cached.milliseconds[0])


@pytest.mark.parametrize(("prompt", "n"), [([], 3), ([1], 0), ([1] * 60, 5)])
def test_what_does_not_fit(prompt: list[int], n: int) -> None:
    with pytest.raises(ValueError, match="64"):
        Race(tiny(), prompt, n)


def test_an_encoder_cannot() -> None:
    with pytest.raises(ValueError, match="decoder"):
        Race(tiny(kind="encoder"), PROMPT, 3)


def test_nothing_happens_after_the_end() -> None:
    race = ran(Race(tiny(), PROMPT, 2))
    race.advance()
    assert (race.cached.written, race.uncached.written, len(race.text)) == (2, 2, 2)


def test_what_is_typical() -> None:
    lane = Race(tiny(), PROMPT, 9).cached
    lane.milliseconds = [9.0, 1.0, 2.0, 3.0, 50.0, 4.0, 5.0, 6.0, 70.0]
    assert lane.typical[4] == 5.0
    assert lane.typical[0] == 3.0
    assert lane.thirds(9) == (2.0, 6.0)
    assert lane.thirds(2) == (9.0, 1.0)
    with pytest.raises(ValueError, match="written"):
        lane.thirds(10)
