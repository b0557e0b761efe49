"""The figure kit: pure functions, arrays and texts in, a plotly Figure (or an HTML fragment) out.

Every function takes the palette to draw in. Nothing here imports streamlit or computes anything of the model, and no
words are built in: titles come translated from the caller. Token text goes in as it is; escaping is the kit's own
business.

    byte_strip       characters, bytes and tokens below each other (HTML)
    bars             horizontal bars: next tokens, where a token looks
    stacked_bars     parts of a whole, one bar a row
    lines            curves with names at their ends
    one_hot_bar      a one-hot vector to scale (HTML)
    value_strip      vectors as rows of cells
    look_up          one-hot vector × table = row
    triangle         three words and their distances
    point_map        words as points, flat or spatial
    position_table   a table with a row per position, as a heatmap
    rotation         a pair of features turned by its position
    draw_bar         the cumulative bar with the random draw on it
    token_costs      surprise per token along the text
    cost_changes     the same in two runs, side by side
    activation_curves  the curves of a feed-forward network, with a run's neurons on one
    changed_bars     horizontal bars in two runs
    shaded_texts     texts with a number per token (HTML)
    scaling          why √d: variance, entropy, gradient
    cache_grid       keys and values of one head, a row a token
    lane             a way of writing while it runs (HTML)
    merge_rows       byte-pair merges, one a row (HTML)
    token_table      tokens with id and bytes (HTML)
    ledger_table     the sampling ledger (HTML)
    pass_diagram     the whole forward pass (HTML)
    arithmetic       one cell's way through a calculation (HTML)
    number_table     names down, what was measured across (HTML)
    prose_table      names down, words across (HTML)
    token_row        tokens with a number each (HTML)
    shares           parts of a whole with their sum (HTML)
    facts            names and values in two columns (HTML)
    style            the common look; `literal` and `label` make any text safe for Plotly

`pages.kit.show` puts figures on a page, `pages.kit.links` HTML with links between pages.
"""

from pages.kit.figures.activation_curves import Curve, activation_curves, curve_legend
from pages.kit.figures.arithmetic import Step, Term, arithmetic
from pages.kit.figures.bars import bars
from pages.kit.figures.byte_strip import ByteGroup, Cell, byte_strip
from pages.kit.figures.cache_grid import cache_grid
from pages.kit.figures.changed_bars import changed_bars
from pages.kit.figures.cost_changes import cost_changes, cost_legend
from pages.kit.figures.draw_bar import draw_bar
from pages.kit.figures.facts import fact_list
from pages.kit.figures.lane import Lane, lane
from pages.kit.figures.ledger_table import LedgerRow, ledger_table
from pages.kit.figures.lines import Mark, Series, lines
from pages.kit.figures.look_up import TableRow, look_up
from pages.kit.figures.merge_rows import MergeRow, merge_rows
from pages.kit.figures.number_table import MARK, number_table
from pages.kit.figures.one_hot_bar import one_hot_bar
from pages.kit.figures.pass_diagram import Block, Branch, Part, Stream, pass_diagram
from pages.kit.figures.point_map import MapPoint, point_map
from pages.kit.figures.position_table import position_table
from pages.kit.figures.prose_table import prose_table
from pages.kit.figures.rotation import Turn, rotation
from pages.kit.figures.scaling import variance_of_dots, with_and_without
from pages.kit.figures.shaded_texts import ShadedText, shaded_texts
from pages.kit.figures.shares import Share, share_table
from pages.kit.figures.stacked_bars import stacked_bars
from pages.kit.figures.tiles import Pooled, Tiles, pool_patterns, pooled_csv, shaded
from pages.kit.figures.token_costs import token_costs
from pages.kit.figures.token_row import RowToken, token_row
from pages.kit.figures.token_table import TokenRow, token_table
from pages.kit.figures.triangle import triangle
from pages.kit.figures.value_strip import Strip, symmetric_limit, value_strip

__all__ = [
    "MARK",
    "Block",
    "Branch",
    "ByteGroup",
    "Cell",
    "Curve",
    "Lane",
    "LedgerRow",
    "MapPoint",
    "Mark",
    "MergeRow",
    "Part",
    "Pooled",
    "RowToken",
    "Series",
    "ShadedText",
    "Share",
    "Step",
    "Stream",
    "Strip",
    "TableRow",
    "Term",
    "Tiles",
    "TokenRow",
    "Turn",
    "activation_curves",
    "arithmetic",
    "bars",
    "byte_strip",
    "cache_grid",
    "changed_bars",
    "cost_changes",
    "cost_legend",
    "curve_legend",
    "draw_bar",
    "fact_list",
    "lane",
    "ledger_table",
    "lines",
    "look_up",
    "merge_rows",
    "number_table",
    "one_hot_bar",
    "pass_diagram",
    "point_map",
    "pool_patterns",
    "pooled_csv",
    "position_table",
    "prose_table",
    "rotation",
    "shaded",
    "shaded_texts",
    "share_table",
    "stacked_bars",
    "symmetric_limit",
    "token_costs",
    "token_row",
    "token_table",
    "triangle",
    "value_strip",
    "variance_of_dots",
    "with_and_without",
]
