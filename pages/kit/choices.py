"""What a reader can choose, and what each choice may be."""

import math
from dataclasses import dataclass

from model.analysis.alignment import head_names
from model.analysis.attention_race import LENGTHS
from model.analysis.attention_steps import MASK_KINDS
from model.analysis.beam_continuation import ALPHAS, WIDTHS
from model.analysis.depth import DEPTHS, PLACEMENTS, Placement
from model.analysis.flash_tiles import ORDERS
from model.analysis.flash_traffic import BYTES, CHIPS
from model.analysis.formats import FORMATS
from model.analysis.neuron_effects import RANKINGS
from model.analysis.norm_steps import HALVES, NORMS, Half
from model.analysis.position_models import SCHEMES
from model.analysis.projection import DIMENSIONS, PROJECTIONS
from model.analysis.recurrence import CELLS, Cell
from model.analysis.smaller_caches import BITS
from model.config import Norm, Positions
from model.devices import devices
from model.sampling import SamplingSettings
from model.zoo.catalog import CATALOG
from model.zoo.readers import read_config
from pages.kit import limits, machines, mixture, plans
from pages.kit.prose import COMMON, Prose

DEFAULT_MODEL = next(iter(CATALOG))
TRANSLATOR = "translator"
DEFAULT_TEXT = {
    "en": Prose(COMMON).plain("example_english_text"),
    "zh": Prose(COMMON).plain("example_chinese_text"),
}


@dataclass(frozen=True)
class Selection:
    """What the reader chose. None means: not chosen, the page picks.

    `weights` is the format of the model's weights, one of `FORMATS`, and `device` where it runs (None: the fastest).
    `ids`: when set, the run is these tokens (a generated text that was rewound to) instead of the text's own.
    `chat`: the text is a message to an assistant, in the model's chat template.
    `query` and `key` are token positions. `temperature` to `seed` are sampling settings, as `SamplingSettings` has
    them; `length` tokens are written: greedily if `greedy`, `samples` times drawn, and by beam search `beams` wide (0:
    not) with the length penalty `alpha`, which is shown after `beam_step` steps. The rest is how attention is drawn:
    `scale` of the colours, `without_first` leaves the first token out, weights below `threshold` are not drawn, `rows`
    are the queries whose rows are (None: all), `mix` names the heads that are averaged (see `mixture`), `roles_on` what
    heads' roles are measured on, `rollout_to` the layer that attention is followed up to (None: the last). `mask` is
    one of `MASK_KINDS` that the whole model runs with, None its own; without `scaling` scores are not divided by √d.
    `half` says which of a layer's two norms is looked at, `number` which number of its vector; `norm`, `placement` and
    `depth` choose the untrained stacks to measure.
    `block_q` × `block_k` are the tiles of flash attention, `order` the order that they come in, `tile` the step that is
    shown; `causal` is whether it masks, None as the model does, `dtype` what it computes in. `longest` is the length up
    to which attention is measured, `chip` the one whose memory is reckoned with.
    `neuron` is one of the layer's feed-forward, `ranked_by` what neurons are sorted by, `off` names those that are
    turned off (see `switches`); None: the one that is shown.
    `words` are three to compare and `mapped` any to put on the map, separated by commas; `near` is the one whose
    neighbours are looked for (None: the query). `projection` and `dims` make the map. `word` is looked up in
    `sentences`, a line each.
    `race` tokens are written with and without the cache; `kv_heads`, `bits` (0: as the model computes) and `window`
    (0: none) choose a smaller cache to measure. `plan` is a model to reckon with, the loaded one or a preset, and each
    `plan_…` replaces one of its values; `machine` is what it runs on, unless `bandwidth` (GB/s) and `tflops` are given.
    `scheme` is one of `POSITION_SCHEMES`, `position` a place in a text, `pair` two features that belong together,
    `theta` the base of their wavelengths, `table_width` the features of the sinusoidal table, `slopes` the number of
    heads that ALiBi has and `slope` one of them; `swapped` and `sample` choose between texts.
    `translation_beam` hypotheses are kept while a translation is looked for (1: greedy); `cross` is a head of its
    cross-attention ("2.1") or the mean of all, `written` a token of the translation and `read` one of its source.
    `instead` is the word that takes a token's place.
    `cell` is the recurrent cell in front; `cell_length` tokens are read (0: the text itself) with states of
    `cell_hidden` numbers, gates biased by `gate_bias`, recurrent weights times `cell_gain`, all drawn from `cell_seed`;
    `distance` symbols stand between what is to be recalled and the question.
    """

    model: str = DEFAULT_MODEL
    weights: str = FORMATS[0]
    device: str | None = None
    text: str = DEFAULT_TEXT["en"]
    ids: tuple[int, ...] | None = None
    chat: bool = False
    layer: int | None = None
    head: int | None = None
    query: int | None = None
    key: int | None = None
    lang: str = "en"
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    penalty: float = 1.0
    seed: int = 6  # its random numbers for the example texts fall on likely tokens, as most draws do
    length: int = 40
    samples: int = 2
    greedy: bool = True
    beams: int = 4
    alpha: float = 0.6
    beam_step: int | None = None
    scale: str = "linear"
    without_first: bool = False
    threshold: float = 0.0
    rows: tuple[int, ...] | None = None
    mix: str = mixture.LAYER
    roles_on: str = "text"
    rollout_to: int | None = None
    mask: str | None = None
    scaling: bool = True
    half: Half | None = None
    number: int | None = None
    norm: Norm = NORMS[0]
    placement: Placement = PLACEMENTS[0]
    depth: int = 24
    block_q: int | None = None
    block_k: int | None = None
    order: str = ORDERS[0]
    tile: int | None = None
    causal: bool | None = None
    dtype: str = "float32"
    longest: int = 2_048
    chip: str = "A100"
    neuron: int | None = None
    ranked_by: str = RANKINGS[0]
    off: str | None = None
    words: str | None = None
    near: str | None = None
    mapped: str | None = None
    projection: str = PROJECTIONS[0]
    dims: int = DIMENSIONS[0]
    word: str | None = None
    sentences: str | None = None
    race: int = 96
    kv_heads: int | None = None
    bits: int = 0
    window: int = 0
    plan: str = plans.LOADED
    plan_d: int | None = None
    plan_layers: int | None = None
    plan_heads: int | None = None
    plan_kv: int | None = None
    plan_ff: int | None = None
    plan_vocab: int | None = None
    plan_context: int | None = None
    plan_bits: int | None = None
    plan_cache: int | None = None
    plan_learned: bool | None = None
    plan_tied: bool | None = None
    plan_gated: bool | None = None
    machine: str = machines.HERE
    bandwidth: float | None = None
    tflops: float | None = None
    scheme: Positions | None = None
    position: int | None = None
    pair: int | None = None
    theta: float | None = None
    table_width: int | None = None
    slopes: int = 4
    slope: int = 0
    swapped: str = "example"
    sample: str = "story"
    translation_beam: int = 4
    cross: str | None = None
    written: int | None = None
    read: int | None = None
    instead: str | None = None
    cell: Cell = CELLS[0]
    cell_length: int = 128
    cell_hidden: int = 32
    gate_bias: int = 2
    cell_gain: float = 1.0
    cell_seed: int = 0
    distance: int = 20

    @property
    def sampling(self) -> SamplingSettings:
        """The settings in the form that the model room takes."""
        return SamplingSettings(
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            min_p=self.min_p,
            repetition_penalty=self.penalty,
            seed=self.seed,
        )


# Smallest and largest value of each number; controls offer the same ranges.
RANGES: dict[str, tuple[float, float]] = {
    "temperature": (0.0, 3.0),
    "top_k": (0, 1_000),
    "top_p": (0.0, 1.0),
    "min_p": (0.0, 1.0),
    "penalty": (0.5, 3.0),
    "seed": (0, 2**31 - 1),
    "length": (1, 200),
    "samples": (0, 3),
    "alpha": ALPHAS,
    "beam_step": (1, 100_000),
    "threshold": (0.0, 1.0),
    "block_q": (1, limits.MAX_TOKENS),
    "block_k": (1, limits.MAX_TOKENS),
    "tile": (0, 100_000),
    "race": (8, 200),
    "window": (0, 100_000),
    **plans.RANGES,
    **machines.RANGES,
    "slopes": (1, 32),
    "slope": (0, 31),
    "written": (0, math.inf),  # the page that translates knows how far they go
    "read": (0, math.inf),
    "cell_seed": (0, 999),
}
SCALES = ("linear", "log")
POSITION_SCHEMES = SCHEMES[:-1]  # without "none", of which there is nothing to draw
MAX_POSITIONS = 128  # rows of a table of positions that are shown
THETAS = (100.0, 1_000.0, 10_000.0, 100_000.0, 1_000_000.0)
TABLE_WIDTHS = (8, 16, 32, 64, 96, 128, 256, 512)
MAX_PAIRS = TABLE_WIDTHS[-1] // 2
ROLES_ON = ("text", "random")
SWAPPED = ("example", "own")
SAMPLES = ("story", "own")
CELL_LENGTHS = (0, 16, 32, 64, 128, 256)
CELL_WIDTHS = (16, 32, 64)
GATE_BIASES = (0, 1, 2, 3, 4)
CELL_GAINS = (0.5, 1.0, 1.5, 2.0, 3.0)
RECALL_DISTANCES = (5, 10, 20, 50, 100)
TRANSLATION_BEAMS = (1, 2, 4, 8)
MEAN = "mean"


def _cross_heads() -> tuple[str, ...]:
    config, _ = read_config(CATALOG[TRANSLATOR].folder)
    return head_names(config.n_layers, config.n_heads)


# What a word in the address may be; None, where it is the default, always.
OPTIONS: dict[str, tuple[object, ...]] = {
    "beams": (0, *WIDTHS),
    "scale": SCALES,
    "mask": MASK_KINDS,
    "roles_on": ROLES_ON,
    "half": HALVES,
    "norm": NORMS,
    "placement": PLACEMENTS,
    "depth": DEPTHS,
    "order": ORDERS,
    "dtype": tuple(BYTES),
    "longest": LENGTHS,
    "chip": tuple(CHIPS),
    "ranked_by": RANKINGS,
    "projection": PROJECTIONS,
    "dims": DIMENSIONS,
    "bits": (0, *BITS),
    "plan": plans.NAMES,
    "plan_bits": plans.WEIGHT_BITS,
    "plan_cache": plans.CACHE_BITS,
    "machine": machines.NAMES,
    "scheme": POSITION_SCHEMES,
    "theta": THETAS,
    "table_width": TABLE_WIDTHS,
    "swapped": SWAPPED,
    "sample": SAMPLES,
    "translation_beam": TRANSLATION_BEAMS,
    "cross": (MEAN, *_cross_heads()),
    "cell": CELLS,
    "cell_length": CELL_LENGTHS,
    "cell_hidden": CELL_WIDTHS,
    "gate_bias": GATE_BIASES,
    "cell_gain": CELL_GAINS,
    "distance": RECALL_DISTANCES,
}
# The same, of what has to be known before there is a model to ask.
FORMS: dict[str, tuple[object, ...]] = {"weights": FORMATS, "device": devices()}
# Characters that a text may have.
TEXT_LENGTHS = {
    "words": 3 * limits.MAX_WORD + 4,
    "near": limits.MAX_WORD,
    "mapped": 10 * limits.MAX_WORD,
    "word": limits.MAX_WORD,
    "sentences": 3 * limits.MAX_SENTENCE + 2,
    "instead": limits.MAX_WORD,
}
