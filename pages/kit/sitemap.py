"""Which pages there are, in the order of the data's own way through the model: the navigation is the story."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Section:
    """A heading of the navigation. `name` is its section in common.md, `pages` are module names in pages/."""

    name: str
    pages: tuple[str, ...]


SITEMAP = (
    Section("section_input", ("overview", "tokenization", "embeddings", "positions", "recurrence")),
    Section("section_attention", ("attention", "heads")),
    Section("section_block", ("feed_forward", "residual")),
    Section("section_output", ("next_token", "generation")),
    Section("section_efficiency", ("kv_cache", "flash", "cost")),
    Section("section_architectures", ("architectures",)),
)

# Pages that need a model that continues texts; of another they say what it is.
ABOUT_NEXT_TOKEN = ("overview", "next_token", "generation")

# The page that shows what a model does that fills gaps.
FILLING_GAPS = "architectures"

PAGES = tuple(name for section in SITEMAP for name in section.pages)
START = PAGES[0]
