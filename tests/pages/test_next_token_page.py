"""The next token page: the printed ledger against plain numpy, the draw against `generate`, costs against a softmax."""

import html
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest

from model.language import LanguageModel
from model.sampling import SamplingSettings, random_numbers
from pages.kit import limits
from pages.kit.choices import Selection
from pages.kit.numbers import interval
from pages.kit.prose import Prose, code, escape
from tests.cases import TEXTS
from tests.pages.component_io import pick, sent
from tests.pages.reading import array, box, captions, figure, fragments, markdown, number
from tests.pages.visit import selection, turn_to, visit, well

TEXT = "Tom has a red ball. Ben has a blue car. Tom has a"
SETTINGS: list[dict[str, float]] = [
    {},
    {"temperature": 0.7, "top_k": 8},
    {"temperature": 1.4, "top_p": 0.6, "seed": 3},
    {"temperature": 0.9, "min_p": 0.1, "penalty": 1.3, "seed": 11},
    {"temperature": 1.2, "top_k": 50, "top_p": 0.8, "min_p": 0.02, "penalty": 1.5, "seed": 5},
    {"temperature": 0.0},
    {"top_k": 1},
]


def opened(**parameters: object) -> AppTest:
    return well(visit("next_token", **parameters))


def fragment(app: AppTest, mark: str) -> str:
    (found,) = [body for body in fragments(app) if mark in body]
    return found


def table(app: AppTest) -> tuple[list[str], list[dict[str, str]]]:
    """Column titles and rows of the ledger; a row also has its classes under "class"."""
    body = fragment(app, "atlas-ledger")
    titles = [html.unescape(t) for t in re.findall(r'<th scope="col"[^>]*>(.*?)</th>', body)]
    rows = []
    for kind, inner in re.findall(r'<tr class="([^"]*)"[^>]*>(.*?)</tr>', body):
        cells = [
            html.unescape(c) for c in re.findall(r'<t[hd](?: scope="row")? class="(?!bar).*?">(.*?)</t[hd]>', inner)
        ]
        rows.append(dict(zip(titles, cells, strict=True)) | {"class": kind})
    return titles, rows


def caption(app: AppTest) -> str:
    """The text under all figures."""
    return " ".join(text for _, text in captions(app))


def mark(app: AppTest) -> str:
    """What is written at the random number on the bar of the draw; empty where nothing is drawn."""
    found = re.search(r"<b><bdi>(.*?)</bdi></b>", fragment(app, "class='atlas-draw'"))
    return html.unescape(found[1]) if found else ""


def logits_of(lm: LanguageModel, text: str) -> np.ndarray:
    with torch.no_grad():
        return lm.transformer(torch.tensor([lm.tokenizer.encode(text)]))[0].double().numpy()


def softmax(x: np.ndarray) -> np.ndarray:
    weights = np.exp(x - x.max())
    return weights / weights.sum()


def by_hand(
    logits: np.ndarray, previous: list[int], *, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, penalty=1.0, seed=0
) -> dict[str, np.ndarray]:
    """The stages, written down once more, one token after another."""
    penalised = logits.copy()
    for token in set(previous):
        penalised[token] = penalised[token] / penalty if penalised[token] > 0 else penalised[token] * penalty
    order = np.argsort(-penalised, kind="stable")
    if temperature == 0:
        final = np.zeros_like(logits)
        final[order[0]] = 1
        return {"penalised": penalised, "scaled": penalised, "probability": final, "final": final, "order": order}
    scaled = penalised / temperature
    probability = softmax(scaled)
    kept = list(order[:top_k]) if top_k else list(order)
    whole, mass, nucleus = probability[kept].sum(), 0.0, []
    for token in kept:
        nucleus.append(token)
        mass += probability[token] / whole
        if top_p < 1 and mass >= top_p:
            break
    nucleus = [token for token in nucleus if probability[token] >= min_p * probability.max()]
    final = np.zeros_like(logits)
    final[nucleus] = probability[nucleus] / probability[nucleus].sum()
    return {"penalised": penalised, "scaled": scaled, "probability": probability, "final": final, "order": order}


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_ledger_is_the_one_computed_by_hand(storyteller: LanguageModel, settings: dict[str, float]) -> None:
    ids = storyteller.tokenizer.encode(TEXT)
    logits = logits_of(storyteller, TEXT)[-1]
    stages = by_hand(logits, ids, **settings)
    titles, rows = table(opened(text=TEXT, **settings))
    assert ("penalised" in titles) == ("penalty" in settings)
    assert len(rows) >= 10
    for place, row in enumerate(rows[:10]):
        token = int(stages["order"][place])
        assert row["token"] == storyteller.tokenizer.label(token)
        assert row["#"] == str(place + 1)
        assert number(row["logit"]) == pytest.approx(logits[token], abs=0.0051)
        assert number(row.get("penalised", row["logit"])) == pytest.approx(stages["penalised"][token], abs=0.0051)
        if settings.get("temperature") == 0:
            assert row["÷ T"] == "–", "nothing is divided by 0"
        else:
            assert number(row["÷ T"]) == pytest.approx(stages["scaled"][token], abs=0.0051)
        assert number(row["probability"]) == pytest.approx(stages["probability"][token], abs=0.00051)
        assert number(row["final"]) == pytest.approx(stages["final"][token], abs=0.00051)
        assert ("cut" in row["class"]) == (stages["final"][token] == 0)
        assert (row["filter"] == "kept") == (stages["final"][token] > 0)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_draw_is_the_one_that_generation_makes(storyteller: LanguageModel, settings: dict[str, float]) -> None:
    step = next(storyteller.generate(TEXT, 1, replace(Selection(), **settings).sampling))
    label = storyteller.tokenizer.label(step.id)
    app = opened(text=TEXT, **settings)
    (row,) = [row for row in table(app)[1] if "drawn" in row["class"].split()]
    assert row["token"] == label
    assert app.button(key="write").label == f"write {code(label)} ›"
    if settings.get("temperature") == 0:
        assert mark(app) == ""
    else:
        _, _, u = interval(step.draw.low, step.draw.high, step.draw.u)
        assert mark(app) == f"u = {u} → “{label}”"
    lengths = [float(width) / 100 for width in re.findall(r"width:([\d.]+)%", fragment(app, "class='atlas-draw'"))]
    assert sum(lengths) == pytest.approx(1, abs=1e-5)
    assert lengths[0] == pytest.approx(float(step.ledger.final.max()), abs=2e-6)


def test_at_temperature_0_the_largest_logit_takes_all(storyteller: LanguageModel) -> None:
    app = opened(text=TEXT, temperature=0, top_p=0.5, top_k=3, seed=9)
    rows = table(app)[1]
    best = storyteller.tokenizer.label(int(logits_of(storyteller, TEXT)[-1].argmax()))
    assert (rows[0]["token"], rows[0]["final"]) == (best, "1.000")
    assert {row["final"] for row in rows[1:]} == {"0.000"}
    assert app.slider(key="choose_top_p").disabled
    assert app.button(key="draw_again").disabled


@pytest.mark.parametrize(
    ("control", "settings", "reason"),
    [
        ("top_k", {"temperature": 0, "top_k": 5}, "at temperature 0"),
        ("seed", {"temperature": 0}, "at temperature 0"),
        ("seed", {"top_k": 1}, "only one candidate"),
        ("top_p", {"top_k": 2, "top_p": 0.99}, "passes"),
        ("min_p", {"top_p": 0.05, "min_p": 0.01}, "passes"),
        ("top_p", {"top_p": 0.9}, ""),
        ("top_p", {}, ""),
    ],
)
def test_a_control_without_effect_says_why(control: str, settings: dict[str, float], reason: str) -> None:
    line = fragment(opened(text=TEXT, **settings), f'data-control="{control}"')
    assert (reason in line) if reason else re.search("></p>$", line)


def test_moving_a_control_draws_again_and_the_draw_again_button_too(storyteller: LanguageModel) -> None:
    app = opened(text=TEXT)
    ids, logits = storyteller.tokenizer.encode(TEXT), logits_of(storyteller, TEXT)[-1]
    well(app.slider(key="choose_temperature").set_value(0.5).run())
    final = by_hand(logits, ids, temperature=0.5)["final"]
    assert number(table(app)[1][0]["final"]) == pytest.approx(final.max(), abs=0.00051)
    well(app.button(key="draw_again").click().run())
    seed = selection(app).seed
    assert seed == Selection().seed + 1
    step = next(storyteller.generate(TEXT, 1, SamplingSettings(temperature=0.5, seed=seed)))
    assert f"u = {step.draw.u:.4f}" in mark(app)


def test_settings_outlive_a_page_change() -> None:
    app = opened(text=TEXT)
    well(app.slider(key="choose_top_p").set_value(0.6).run())
    turn_to(app, "overview")
    well(turn_to(app, "next_token"))
    assert app.slider(key="choose_top_p").value == pytest.approx(0.6)
    assert selection(app).top_p == pytest.approx(0.6)


def test_caption_counts_entropy_and_nucleus(storyteller: LanguageModel) -> None:
    settings = {"temperature": 0.8, "top_p": 0.7}
    stages = by_hand(logits_of(storyteller, TEXT)[-1], storyteller.tokenizer.encode(TEXT), **settings)

    def bits(p: np.ndarray) -> float:
        p = p[p > 0]
        return float(-(p * np.log2(p)).sum())

    app = opened(text=TEXT, **settings)
    raw = bits(softmax(logits_of(storyteller, TEXT)[-1]))
    kept = stages["final"] > 0
    text = caption(app)
    assert f"{len(table(app)[1])} of 8,192 shown" in text
    assert f"entropy {raw:.2f} bits as the model gave it, {bits(stages['final']):.2f} bits in the end" in text
    assert f"the nucleus holds {kept.sum()} tokens and {stages['probability'][kept].sum():.1%} of the mass" in text


def test_any_token_can_be_the_last_one(storyteller: LanguageModel) -> None:
    ids, logits = storyteller.tokenizer.encode(TEXT), logits_of(storyteller, TEXT)
    app = well(pick(opened(text=TEXT), "strip", query=3, key=None))
    assert sent(app, "strip")[0]["query"] == 3
    order = np.argsort(-logits[3])
    assert table(app)[1][0]["token"] == storyteller.tokenizer.label(int(order[0]))
    follower = storyteller.tokenizer.label(ids[4])
    rank = int(np.flatnonzero(order == ids[4])[0]) + 1
    assert f"goes on with {code(follower)}: number {rank} here" in markdown(app)
    (row,) = [row for row in table(app)[1] if "your text" in row["filter"]]
    assert (row["token"], row["#"]) == (follower, str(rank))
    well(app.button(key="to_end").click().run())
    assert selection(app).query == len(ids) - 1


def test_what_was_drawn_can_be_written(storyteller: LanguageModel) -> None:
    app = opened(text=TEXT, seed=4)
    step = next(storyteller.generate(TEXT, 1, SamplingSettings(seed=4)))
    well(app.button(key="write").click().run())
    assert selection(app).ids == step.ids
    assert sent(app, "strip")[0]["n_tokens"] == len(step.ids)


def test_written_one_by_one_it_is_the_text_that_generation_writes(storyteller: LanguageModel) -> None:
    steps = list(storyteller.generate(TEXT, 4, SamplingSettings(seed=3)))
    app, numbers = opened(text=TEXT, seed=3), []
    for _ in steps:
        numbers.append(re.search(r"u = ([\d.]+)", mark(app))[1])
        well(app.button(key="write").click().run())
    assert selection(app).ids == steps[-1].ids
    assert [float(u) for u in numbers] == pytest.approx([step.draw.u for step in steps], abs=5.1e-5)
    assert len(set(numbers)) == len(numbers), "each position has a number of its own"


@pytest.mark.parametrize("name", ["english", "chinese", "code", "pattern"])
def test_a_first_visit_draws_a_likely_token(name: str) -> None:
    rows = table(opened(text=Prose("common").plain(f"example_{name}_text")))[1]
    (row,) = [row for row in rows if "drawn" in row["class"].split()]
    assert int(row["#"]) <= 10


def test_the_interval_of_a_narrow_token_has_two_ends(storyteller: LanguageModel) -> None:
    n = len(storyteller.tokenizer.encode(TEXT))
    late = (s for s in range(50_000) if torch.rand((), generator=random_numbers(s, n), dtype=torch.float64) > 0.9995)
    app = opened(text=TEXT, seed=next(late))
    low, high = re.search(r"owns ([\d.]+) to ([\d.]+)", caption(app)).groups()
    assert float(low) <= float(re.search(r"u = ([\d.]+)", mark(app))[1]) <= float(high)
    assert float(low) < float(high)


def test_a_full_text_cannot_be_written_on() -> None:
    assert opened(text="the cat " * 400).button(key="write").disabled


def test_the_readout_multiplies_to_the_logit(storyteller: LanguageModel) -> None:
    app = opened(text=TEXT, temperature=0)
    token = int(logits_of(storyteller, TEXT)[-1].argmax())
    run = storyteller.trace(TEXT)
    gain = storyteller.transformer.ln_final.weight.detach()
    x = (run["ln_final.hook_normalized"][-1] * gain).numpy()
    w = storyteller.transformer.embed.weight[token].detach().numpy()
    rows = [array(trace["z"])[0] for trace in figure(app, "readout")["data"]]
    np.testing.assert_allclose(rows[0], run["blocks.5.hook_resid_post"][-1].numpy(), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(rows[1], x, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(rows[2], w, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(rows[3], x * w, rtol=1e-4, atol=1e-5)
    printed = box(app)
    assert f"= {x @ w:.2f}" in printed
    assert "(251 others)" in printed


def test_costs_are_the_cross_entropy_in_bits(storyteller: LanguageModel) -> None:
    ids, logits = storyteller.tokenizer.encode(TEXT), logits_of(storyteller, TEXT)
    bits = np.array([-np.log2(softmax(row)[token]) for row, token in zip(logits[:-1], ids[1:], strict=True)])
    app = opened(text=TEXT)
    shown = array(figure(app, "costs")["data"][0]["y"]).astype(float)
    assert np.isnan(shown[0])
    np.testing.assert_allclose(shown[1:], bits, rtol=1e-4, atol=1e-5)
    words = markdown(app)
    assert f"On average {escape(f'{bits.mean():.2f}')} bits" in words
    perplexity = 2 ** bits.mean()
    assert f"**perplexity** of {escape(f'{perplexity:.3g}')}" in words
    labels = storyteller.tokenizer.labels(ids)
    cheap, dear = labels[int(bits.argmin()) + 1], labels[int(bits.argmax()) + 1]
    assert f"{code(cheap)} came cheapest at {escape(f'{bits.min():.2f}')} bits" in words
    assert f"{code(dear)} was dearest at {escape(f'{bits.max():.2f}')} bits" in words
    assert f"cost {escape(f'{bits.sum():,.0f}')} bits" in words
    plain = 8 * (len(TEXT.encode()) - len(storyteller.tokenizer.token_bytes(ids[0])))
    assert f"they take {escape(f'{plain:,}')} bits" in words
    well(app.button(key="go_dearest").click().run())
    assert selection(app).query == int(bits.argmax())


def test_a_text_that_the_model_guesses_badly_is_not_praised() -> None:
    words = markdown(opened(text="a<b<c && </s> <br> <script>alert(1)</script> <img src=x onerror=alert(1)>"))
    assert "Blind guessing" in words
    assert "who guesses badly does not compress" in words
    words = markdown(opened(text="Once upon a time, there was a little girl named Lily."))
    assert "equally likely tokens" in words
    assert "a good guesser is a good compressor" in words


def test_what_to_try_is_measured(storyteller: LanguageModel) -> None:
    logits = logits_of(storyteller, TEXT)
    app = opened(text=TEXT)
    best = int(logits[-1].argmax())
    cold, hot = (softmax(logits[-1] / t)[best] for t in (0.5, 2.0))
    words = markdown(app)
    assert f"At 0.5 that token has {escape(f'{cold:.3f}')}, at 2 it has {escape(f'{hot:.3f}')}" in words
    mass = np.sort(softmax(logits[-1]))[::-1].cumsum()
    assert f"{escape(f'{int((mass < 0.9).sum()) + 1:,}')} of" in words
    entropy = [-(p * np.log2(p)).sum() for p in map(softmax, logits)]
    well(app.button(key="go_surest").click().run())
    assert selection(app).query == int(np.argmin(entropy))


def test_no_figure_is_an_illustration() -> None:
    kinds = re.findall(r'data-source="(\w+)"', " ".join(fragments(opened())))
    assert kinds
    assert set(kinds) == {"measured"}


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("text", [text for _, text in TEXTS], ids=[name for name, _ in TEXTS])
def test_every_text(text: str, lang: str) -> None:
    app = opened(text=text, lang=lang, temperature=0.9, top_p=0.9, penalty=1.2)
    rows = table(app)[1]
    assert 10 <= len(rows) <= 17
    assert all(row[next(iter(row))] for row in rows)
    assert 1 <= sent(app, "strip")[0]["n_tokens"] <= limits.MAX_TOKENS
    assert sent(app, "strip")[0]["ask_next"]
