"""From logits to a token, every stage on record.

The order is Transformers': repetition penalty → temperature → top-k → top-p → min-p → draw.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

# Probabilities come from fp32 logits, so sums like 0.5 + 0.3 reach 0.8 only up to rounding.
_TOLERANCE = 1e-6


@dataclass(frozen=True)
class SamplingSettings:
    """How a token is chosen.

    `temperature` divides the logits; 0 takes the most probable token. `top_k` keeps the k most probable
    (0: off). `top_p` keeps the smallest set whose mass reaches p, at least one (1: off; Holtzman et al. 2020).
    `min_p` keeps tokens of at least min_p times the largest probability (0: off; Nguyen et al. 2024).
    `repetition_penalty` divides positive and multiplies negative logits of tokens already there (1: off;
    Keskar et al. 2019). `seed` fixes the draws.

    Raises:
        ValueError: for a value out of range.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise ValueError(f"The temperature is {self.temperature}; it must be 0 or more.")
        if self.top_k < 0:
            raise ValueError(f"top-k is {self.top_k}; it must be 0 (off) or more.")
        if not 0 <= self.top_p <= 1:
            raise ValueError(f"top-p is {self.top_p}; it must be between 0 and 1 (off).")
        if not 0 <= self.min_p <= 1:
            raise ValueError(f"min-p is {self.min_p}; it must be between 0 (off) and 1.")
        if not (math.isfinite(self.repetition_penalty) and self.repetition_penalty > 0):
            raise ValueError(f"The repetition penalty is {self.repetition_penalty}; it must be greater than 0.")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"The seed is {self.seed}; it must be a whole number from 0.")

    @property
    def greedy(self) -> bool:
        """Whether the most probable token is simply taken."""
        return self.temperature == 0


class Ledger:
    """Every stage between the logits and the final probabilities, for the whole vocabulary of V tokens.

    Vectors are by token id, `(V,)`, on the CPU, unless they say otherwise; what only a reader asks for is
    computed when asked.
    """

    def __init__(self, logits: Tensor, settings: SamplingSettings, previous_ids: Iterable[int] = ()) -> None:
        self.settings = settings
        self.logits = logits.detach().float().cpu()
        if self.logits.dim() != 1 or not self.logits.numel():
            raise ValueError(f"Logits are one vector over the vocabulary, not of shape {tuple(logits.shape)}.")
        top = float(self.logits.max())
        if not math.isfinite(top) or math.isnan(float(self.logits.sum()) if top < math.inf else math.nan):
            raise ValueError("The logits hold NaN or no finite maximum: the model's numbers have overflowed.")
        self._previous = tuple(previous_ids)
        self._top = torch.empty(0, dtype=torch.long)

    @cached_property
    def penalised(self) -> Tensor:
        """Logits after the repetition penalty, once per distinct token that is already there."""
        penalty = self.settings.repetition_penalty
        if penalty == 1 or not self._previous:
            return self.logits
        seen = torch.tensor(sorted(set(self._previous)))
        values = self.logits[seen]
        return self.logits.index_copy(0, seen, torch.where(values < 0, values * penalty, values / penalty))

    @cached_property
    def scaled(self) -> Tensor:
        """Penalised logits divided by the temperature; at temperature 0, undivided (arg-max decides)."""
        return self.penalised if self.settings.greedy else self.penalised / self.settings.temperature

    @cached_property
    def probabilities(self) -> Tensor:
        """Softmax of `scaled`: what the filters look at first."""
        return self.scaled.softmax(-1)

    @cached_property
    def order(self) -> Tensor:
        """All token ids, most probable first, equals by lower id."""
        return self.scaled.sort(descending=True, stable=True).indices

    def top(self, count: int) -> Tensor:
        """The first `count` ids of `order`, without sorting the whole vocabulary where a part will do."""
        if "order" in self.__dict__ or count * 8 >= self.scaled.numel():
            return self.order[:count]
        if self._top.numel() < count:
            least = self.scaled.topk(count).values[-1]
            ids = (self.scaled >= least).nonzero()[:, 0]  # ascending, so a stable sort keeps equals by lower id
            self._top = ids[self.scaled[ids].sort(descending=True, stable=True).indices]
        return self._top[:count]

    @cached_property
    def cumulative(self) -> Tensor:
        """Probability of each token and all more probable ones (before any filter)."""
        out = torch.empty_like(self.probabilities)
        out[self.order] = self.probabilities[self.order].double().cumsum(0).float()
        return out

    @cached_property
    def _counts(self) -> tuple[int, int, int]:
        """How many of the most probable tokens are left after top-k, top-p and min-p. Each filter keeps a prefix
        of the order, so a count says all."""
        s, size = self.settings, self.logits.numel()
        if s.greedy:
            return 1, 1, 1
        k = min(s.top_k, size) if s.top_k else size
        p = self._nucleus(k) if s.top_p < 1 else k
        m = p
        if s.min_p > 0:
            bound = s.min_p * float(self.probabilities.max()) * (1 - _TOLERANCE)
            m = max(1, min(p, int((self.probabilities >= bound).sum())))
        return k, p, m

    def _nucleus(self, k: int) -> int:
        """The size of the smallest prefix of the first k whose share of their mass reaches top-p."""
        whole = float(self.probabilities[self.top(k)].double().sum()) if k < self.logits.numel() else 1.0
        wanted = (self.settings.top_p - _TOLERANCE) * whole
        n = min(k, 256)
        while True:
            mass = self.probabilities[self.top(n)].double().cumsum(0)
            if n == k or float(mass[-1]) >= wanted:
                # The token that crosses p belongs to the set.
                return min(int((mass < wanted).sum()) + 1, k)
            n = min(k, 8 * n)

    def _prefix(self, count: int) -> Tensor:
        kept = torch.zeros(self.logits.numel(), dtype=torch.bool)
        kept[self.top(count)] = True
        return kept

    @property
    def kept_top_k(self) -> Tensor:
        """Bool: left after top-k (all where it is off)."""
        return self._prefix(self._counts[0])

    @property
    def kept_top_p(self) -> Tensor:
        """Bool: left after top-k and top-p."""
        return self._prefix(self._counts[1])

    @property
    def kept_min_p(self) -> Tensor:
        """Bool: left after all filters, the candidates of the draw."""
        return self._prefix(self._counts[2])

    @property
    def n_kept(self) -> int:
        """Number of candidates: the nucleus."""
        return self._counts[2]

    @cached_property
    def candidates(self) -> Tensor:
        """`(n_kept,)` final probabilities of the candidates, most probable first, fp64; they sum to 1."""
        kept = self.probabilities[self.top(self.n_kept)].double()
        return torch.ones_like(kept) if self.settings.greedy else kept / kept.sum()

    def bar(self, count: int) -> Tensor:
        """`(count,)` cumulative final probabilities of the first candidates, fp64: where the draw looks."""
        if self.n_kept == self.logits.numel():  # nothing was cut: no need to rank everything for the sum
            return self.probabilities[self.top(count)].double().cumsum(0)
        return self.candidates[:count].cumsum(0)

    @cached_property
    def final(self) -> Tensor:
        """Final probability of every token; 0 for those that a filter cut."""
        out = torch.zeros_like(self.probabilities)
        out[self.top(self.n_kept)] = self.candidates.float()
        return out

    @cached_property
    def raw_entropy(self) -> float:
        """Entropy, bits, of the model's own distribution, before any setting."""
        return _entropy(self.logits.double().softmax(-1))

    @cached_property
    def final_entropy(self) -> float:
        """Entropy, bits, of the final distribution."""
        return _entropy(self.candidates)

    @cached_property
    def kept_mass(self) -> float:
        """Share of the probability (after temperature) that the candidates had before the rest was cut."""
        return float(self.probabilities[self.top(self.n_kept)].double().sum())

    def cut_by(self, token: int) -> str | None:
        """Which filter cut a token: "temperature" (0: all but the first), "top_k", "top_p", "min_p", or None."""
        rank = int((self.order == token).nonzero()[0, 0])
        k, p, m = self._counts
        if rank < m:
            return None
        if self.settings.greedy:
            return "temperature"
        return "top_k" if rank >= k else "top_p" if rank >= p else "min_p"

    def no_effect(self) -> dict[str, str]:
        """Which settings change nothing here, and why.

        Values: "off"; "greedy" (temperature 0 already leaves one token); "keeps_all" (the filter cuts nothing
        that is still there); "nothing_repeated" (no earlier token to penalise); "one_candidate" (a seed with
        nothing to draw from).
        """
        s, reasons = self.settings, {}
        k, p, m = self._counts
        size = self.logits.numel()
        rules = (
            ("top_k", s.top_k == 0, k == size),
            ("top_p", s.top_p == 1, p == k),
            ("min_p", s.min_p == 0, m == p),
        )
        for name, off, idle in rules:
            if off or s.greedy or idle:
                reasons[name] = "off" if off else "greedy" if s.greedy else "keeps_all"
        if s.temperature == 1:
            reasons["temperature"] = "off"
        if s.repetition_penalty == 1 or not self._previous:
            reasons["repetition_penalty"] = "off" if s.repetition_penalty == 1 else "nothing_repeated"
        if s.greedy or m == 1:
            reasons["seed"] = "greedy" if s.greedy else "one_candidate"
        return reasons


@dataclass(frozen=True)
class Draw:
    """One draw: the token `id`, the random number `u` in [0, 1), and the token's interval [`low`, `high`) on the
    bar of final probabilities, most probable first. Without chance (greedy) `u` is 0."""

    id: int
    u: float
    low: float
    high: float
    probability: float


def ledger(logits: Tensor, settings: SamplingSettings, previous_ids: Iterable[int] = ()) -> Ledger:
    """All stages for logits `(V,)`; `previous_ids` are the tokens that the repetition penalty looks at.

    Raises:
        ValueError: for logits that are no vector, or hold NaN or infinity.
    """
    return Ledger(logits, settings, previous_ids)


def draw(entries: Ledger, generator: torch.Generator) -> Draw:
    """Take one token by inverting the cumulative distribution; the generator is a CPU one, so that a seed means
    the same on every device. Greedy takes the most probable token and leaves the generator alone."""
    if entries.settings.greedy:
        return Draw(int(entries.penalised.argmax()), 0.0, 0.0, 1.0, 1.0)
    u = float(torch.rand((), generator=generator, dtype=torch.float64))
    n = min(entries.n_kept, 256)
    while True:  # the bar is drawn only as far as it is needed
        bar = entries.bar(n)
        if n == entries.n_kept or float(bar[-1]) > u:
            break
        n = min(entries.n_kept, 8 * n)
    rank = min(int((bar <= u).sum()), n - 1)
    low = float(bar[rank - 1]) if rank else 0.0
    return Draw(int(entries.top(n)[rank]), u, low, float(bar[rank]), float(bar[rank]) - low)


def token_losses(logits: Tensor, ids: Tensor | list[int]) -> Tensor:
    """What each token cost: -log p(token t+1 | tokens up to t), nats. Logits `(T, V)`, T ids, to `(T - 1,)`."""
    targets = torch.as_tensor(ids, device=logits.device)[1:]
    return torch.nn.functional.cross_entropy(logits[:-1].float(), targets, reduction="none")


def perplexity(losses: Tensor) -> float:
    """e to the mean loss (nats): how many equally likely choices the text amounts to; nan for no tokens."""
    return float(losses.double().mean().exp())


def _entropy(p: Tensor) -> float:
    return float(-(p * p.clamp_min(torch.finfo(p.dtype).tiny).log2()).sum())
