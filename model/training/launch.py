"""How a recipe is started: threads, device, one process or several."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable

import torch
import torch.distributed as dist

from model.language import best_device
from model.training.checkpoints import FILE

Recipe = Callable[[argparse.Namespace, torch.device], int]


def launch(args: argparse.Namespace) -> int:
    """Run `args.recipe` on the device and in the processes that the options and torchrun ask for.

    Raises:
        ValueError: if `--out` has a run and `--resume` was not given.
    """
    if args.threads:
        torch.set_num_threads(args.threads)
    if (args.out / FILE).is_file() and not args.resume:
        raise ValueError(f"{args.out} has a run already: add --resume to continue it, or choose another folder.")
    device = best_device() if args.device == "auto" else torch.device(args.device)
    parallel = int(os.environ.get("WORLD_SIZE", "1")) > 1
    if parallel:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
        if device.type == "cuda":
            device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
            torch.cuda.set_device(device)
    recipe: Recipe = args.recipe
    try:
        return recipe(args, device)
    finally:
        if parallel:
            dist.destroy_process_group()


def is_chief() -> bool:
    """Whether this is the only process, or the first of several: the one that writes and prints."""
    return not dist.is_initialized() or dist.get_rank() == 0


def once(make: Callable[[], object]) -> None:
    """Let the first process make something that the others wait for."""
    if is_chief():
        make()
    if dist.is_initialized():
        dist.barrier()
