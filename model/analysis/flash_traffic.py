"""How many bytes attention moves between a GPU's large and its small memory, with and without tiles.

The counts are those of Dao et al. 2022 (section 3.2), exact instead of up to a factor, for one head and one layer.
"""

from __future__ import annotations

from dataclasses import dataclass

# Shared memory of one multiprocessor in KiB, as NVIDIA's CUDA programming guide has it (compute capability 7.5, 8.9,
# 8.0 and 9.0).
CHIPS = {"T4": 64, "RTX 4090": 100, "A100": 164, "H100": 228}
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
BLOCKS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


@dataclass(frozen=True)
class Traffic:
    """Of one head over `n` tokens with `d` numbers a token.

    `plain`, `tiled`: bytes read from and written to the large memory. `tiles`: how many there are to go through.
    `keys_read`: how often a key, with its value, is read, all blocks of queries together. `on_chip`: bytes that one
    tile and what is remembered of its rows take in the small memory.
    """

    plain: int
    tiled: int
    tiles: int
    keys_read: int
    on_chip: int


def traffic(n: int, d: int, block_q: int, block_k: int, number: int, *, causal: bool) -> Traffic:
    """Bytes moved for a forward pass; `number` is the bytes of one number of q, k, v and the output.

    Plain: read q and k, write the n × n scores; read them, write the n × n weights; read these and v, write the
    output: (4nd + 4n²) numbers. Tiled, by rows: q is read and the output written once, k and v are read once for every
    block of queries that needs them, and one fp32 number a row is kept for the backward pass.

    Raises:
        ValueError: for a size that is not at least 1.
    """
    if min(n, d, block_q, block_k, number) < 1:
        raise ValueError(f"Sizes must be at least 1: {n}, {d}, {block_q}, {block_k}, {number}.")
    tiles = keys_read = 0
    for first in range(0, n, block_q):
        last = min(first + block_q, n)
        reach = last if causal else n
        blocks = -(-reach // block_k)
        tiles += blocks
        keys_read += min(blocks * block_k, n)
    return Traffic(
        plain=(4 * n * d + 4 * n * n) * number,
        tiled=(2 * n * d + 2 * keys_read * d) * number + 4 * n,
        tiles=tiles,
        keys_read=keys_read,
        on_chip=on_chip(d, block_q, block_k, number),
    )


def on_chip(d: int, block_q: int, block_k: int, number: int) -> int:
    """Bytes of a tile at work: its q, k and v; its scores, the sums of values and two numbers a row in fp32."""
    return (block_q + 2 * block_k) * d * number + 4 * (block_q * block_k + block_q * d + 2 * block_q)


def largest_block(d: int, number: int, kib: int) -> int:
    """The largest of `BLOCKS` whose square tile fits in `kib` KiB; the smallest if none does."""
    return max((b for b in BLOCKS if on_chip(d, b, b, number) <= 1024 * kib), default=BLOCKS[0])
