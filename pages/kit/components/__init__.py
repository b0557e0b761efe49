"""Browser components of our own: matrices and lines of attention, the token strip, continuations, and their tree.

They have no build step and no library: a component is a Python file that checks and packs the data, and a script
and a style sheet that draw it. All text is set as text and all words come from Python, translated.
"""

from pages.kit.components.chips import WORDS as CHIP_WORDS
from pages.kit.components.chips import Shade, chips
from pages.kit.components.head_tiles import head_tiles
from pages.kit.components.lines import WORDS as LINE_WORDS
from pages.kit.components.lines import lines
from pages.kit.components.matrices import WORDS as MATRIX_WORDS
from pages.kit.components.matrices import Panel, matrices
from pages.kit.components.mounting import Picked

__all__ = [
    "CHIP_WORDS",
    "LINE_WORDS",
    "MATRIX_WORDS",
    "Panel",
    "Picked",
    "Shade",
    "chips",
    "head_tiles",
    "lines",
    "matrices",
]
