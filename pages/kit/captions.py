"""What the lines under figures of attention say, and the words that the browser components need."""

from pages.kit.components import LINE_WORDS, MATRIX_WORDS
from pages.kit.page import Page


def kernel(page: Page, layer: int) -> str:
    """Which kernel made this layer's output, and where its pattern comes from."""
    name = page.run.kernels[f"blocks.{layer}.attn"]
    return page.say.plain("kernel_itself" if name == "explicit" else "kernel_beside", kernel=name)


def matrix_words(page: Page, label: str) -> dict[str, str]:
    """The words of `matrices`; `label` names the figure for screen readers."""
    texts = {"label": label, "help": page.say.plain("matrix_help")}
    return texts | {word: page.say.plain(word) for word in MATRIX_WORDS if word not in texts}


def line_words(page: Page, label: str) -> dict[str, str]:
    """The words of `lines`; `label` names the figure for screen readers."""
    texts = {"label": label, "help": page.say.plain("lines_help")}
    return texts | {word: page.say.plain(word) for word in LINE_WORDS if word not in texts}
