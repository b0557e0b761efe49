"""What the page on self-attention shows: one cell of one head, in a run with the mask that the reader chose."""

from dataclasses import dataclass
from functools import cached_property

import streamlit as st

from model.analysis.attention_checks import PlainCheck, compare_with_plain, row_sum_error
from model.analysis.attention_steps import HeadSteps, MaskChoice, head_steps, kernel_difference, mask_choice
from model.analysis.interest import Place
from model.analysis.mask_effect import MaskEffect, mask_effect
from model.analysis.scaling import HeadScaling, Scaling, head_scaling, scaling_by_size
from model.trace import Trace
from pages.kit import loading
from pages.kit.page import Page


@dataclass(frozen=True)
class View:
    """The cell and everything that is computed for it. All of it comes from `run`."""

    page: Page

    @property
    def place(self) -> Place:
        """Layer, head, query and key. They stay as they are when the mask changes, to compare the same cell."""
        return self.page.place

    @property
    def own_mask(self) -> str:
        """The mask kind that the model itself has."""
        return "causal" if self.page.lm.config.causal else "none"

    @property
    def mask(self) -> str:
        """The mask kind that is shown."""
        return self.page.sel.mask or self.own_mask

    @property
    def other_mask(self) -> str:
        """The mask kind to compare the model's own with: the one that is shown, or the one that shows the most."""
        if self.mask != self.own_mask:
            return self.mask
        return "none" if self.own_mask == "causal" else "causal"

    @cached_property
    def choice(self) -> MaskChoice:
        """The shown mask with its sizes for this text."""
        return self._choice(self.mask)

    @cached_property
    def run(self) -> Trace:
        """The whole model, run with the shown mask."""
        return loading.trace(self.page.sel, self.choice.rule, self.choice.padding)

    @cached_property
    def other_run(self) -> Trace:
        """The whole model, run with `other_mask`."""
        choice = self._choice(self.other_mask)
        return loading.trace(self.page.sel, choice.rule, choice.padding)

    @cached_property
    def effect(self) -> MaskEffect:
        """The guesses under the model's own mask and under `other_mask`."""
        return effect_of(self.page.run, self.other_run)

    @cached_property
    def scaled(self) -> HeadSteps:
        """The head as the model has it."""
        return head_steps(self.run, self.place.layer, self.place.head)

    @cached_property
    def unscaled(self) -> HeadSteps:
        """The same queries, keys and values, not divided by √d."""
        return head_steps(self.run, self.place.layer, self.place.head, scaling=False)

    @property
    def steps(self) -> HeadSteps:
        """The head as it is shown."""
        return self.scaled if self.page.sel.scaling else self.unscaled

    @cached_property
    def measured(self) -> "Measured":
        """What takes longer to find out; kept for the cells looked at last."""
        return _measured(self.run, *self.place[:3], self.page.sel.scaling)

    def label(self, position: int) -> str:
        """The token at a position, as people read it."""
        return self.run.labels[position]

    def _choice(self, kind: str) -> MaskChoice:
        return mask_choice(kind, len(self.page.run.tokens), causal=self.page.lm.config.causal)


@dataclass(frozen=True)
class Measured:
    """The checks of the shown head, and its scores' scatter with and without the division by √d."""

    plain: PlainCheck
    kernel_difference: float
    row_sum_error: float
    scaled: HeadScaling
    unscaled: HeadScaling


@st.cache_data(show_spinner=False, max_entries=256, hash_funcs={Trace: lambda run: run.id})
def _measured(run: Trace, layer: int, head: int, query: int, scaling: bool) -> Measured:
    scaled, unscaled = (head_steps(run, layer, head, scaling=on) for on in (True, False))
    shown = scaled if scaling else unscaled
    return Measured(
        compare_with_plain(shown, query),
        kernel_difference(run, layer),
        row_sum_error(shown),
        head_scaling(scaled, query),
        head_scaling(unscaled, query),
    )


@st.cache_data(show_spinner=False, max_entries=64, hash_funcs={Trace: lambda run: run.id})
def effect_of(before: Trace, after: Trace) -> MaskEffect:
    """`mask_effect`, kept for the runs looked at last."""
    return mask_effect(before, after)


@st.cache_data(show_spinner=False, max_entries=1)
def scaling_of_random_vectors() -> list[Scaling]:
    """Variance, entropy and gradient by head size, on random vectors."""
    return scaling_by_size()
