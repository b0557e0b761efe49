"""Our own CUDA kernel: on a GPU where there is one, else through Triton's interpreter on the CPU."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

if importlib.util.find_spec("triton") is None:
    pytest.skip("no Triton here: it comes for Linux only", allow_module_level=True)

import triton

from model import kernels
from model.flash_triton import DTYPES, flash_forward
from model.kernels import Visible, attention_pattern, explicit, ours, repeat_kv
from tests.conftest import REPOSITORY
from tests.model.test_kernels import qkv
from tests.model.tiny import close, within_budget

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
HEADS = [(4, 4), (4, 2), (6, 1)]


@pytest.fixture(autouse=True)
def interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU the kernel must be interpreted. The interpreter keeps bfloat16 as the integers of its bits, and its
    matrix product takes them for such: give it the numbers.
    """
    if ON_GPU:
        return
    assert os.environ.get("TRITON_INTERPRET") == "1", "tests/conftest.py sets it"
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle, _convert_float

    multiply = InterpreterBuilder.create_dot

    def create_dot(self, a, b, *rest):
        bf16, fp32 = triton.language.bfloat16, triton.language.float32
        if a.dtype.scalar == bf16:
            a, b = (TensorHandle(_convert_float(x.data, bf16, fp32, None).view("float32"), fp32) for x in (a, b))
        return multiply(self, a, b, *rest)

    monkeypatch.setattr(InterpreterBuilder, "create_dot", create_dot)


def vectors(dtype, heads, n, d, *, batch=2, keys=None):
    q, k, v = qkv(1, *heads, n, keys or n, batch=batch, size=d, dtype=dtype)
    return q.to(DEVICE), k.to(DEVICE), v.to(DEVICE)


def plain(q, k, v, causal):
    """Every step rounded to the dtype of the inputs."""
    scores = q @ repeat_kv(k, q.shape[1]).transpose(-1, -2) * q.shape[-1] ** -0.5
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
    return attention_pattern(scores) @ repeat_kv(v, q.shape[1])


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize(("n", "d"), [(1, 16), (16, 32), (37, 32), (100, 64), (33, 128)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_it_stays_in_the_budget_of_plain_attention(dtype, n, d, heads, causal):
    q, k, v = vectors(dtype, heads, n, d)
    out = flash_forward(q, k, v, causal, block_q=16, block_k=32)
    assert (out.shape, out.dtype) == (q.shape, dtype)
    exact = explicit(q.float(), k.float(), v.float(), Visible(causal=causal)).out
    within_budget(out, plain(q, k, v, causal), exact)


@pytest.mark.parametrize("blocks", [(16, 16), (16, 64), (64, 16), (32, 32)])
@pytest.mark.parametrize("causal", [True, False])
def test_in_single_precision_it_is_attention(causal, blocks):
    q, k, v = vectors(torch.float32, (4, 2), 50, 32)
    out = flash_forward(q, k, v, causal, block_q=blocks[0], block_k=blocks[1])
    close(out, explicit(q, k, v, Visible(causal=causal)).out)


def test_more_keys_than_queries_and_vectors_that_lie_apart():
    q, k, v = vectors(torch.float32, (4, 2), 20, 16, keys=45)
    close(flash_forward(q, k, v, False, block_q=16, block_k=16), explicit(q, k, v, Visible()).out)
    apart = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in vectors(torch.float32, (4, 2), 20, 16)]
    assert not apart[0].is_contiguous()
    close(flash_forward(*apart, True, block_q=16, block_k=16), explicit(*apart, Visible(causal=True)).out)


def test_large_scores_do_not_overflow():
    q, k, v = vectors(torch.float32, (2, 2), 20, 16)
    see = Visible(causal=True)
    close(flash_forward(q * 1e4, k, v, True, block_q=16, block_k=16), explicit(q * 1e4, k, v, see).out)


def test_what_the_kernel_does_not_take_is_refused():
    q, k, v = vectors(torch.float32, (4, 2), 20, 16)
    with pytest.raises(ValueError, match="Heads of 24"):
        flash_forward(*vectors(torch.float32, (4, 2), 20, 24), True)
    with pytest.raises(ValueError, match=r"in torch\.float64"):
        flash_forward(q.double(), k.double(), v.double(), True)
    with pytest.raises(ValueError, match="do not fit"):
        flash_forward(q[:, :3], k, v, True)
    with pytest.raises(ValueError, match="do not fit"):
        flash_forward(q[:, :, :5], k, v, True)
    with pytest.raises(ValueError, match="power of two"):
        flash_forward(q, k, v, True, block_q=24)


def test_the_third_kernel_has_the_contract_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = vectors(torch.float16, (4, 2), 20, 32)
    if not ON_GPU:
        assert ours(q, k, v, Visible(causal=True)).kernel != "triton", "never on a CPU by itself"
        monkeypatch.setattr(kernels, "own_kernel_runs", lambda device: True)
    attended = ours(q, k, v, Visible(causal=True))
    assert (attended.kernel, attended.pattern) == ("triton", None)
    exact = explicit(q.float(), k.float(), v.float(), Visible(causal=True)).out
    within_budget(attended.out, plain(q, k, v, True), exact)
    # What it does not take goes to torch's kernels.
    mask = torch.ones(2, 1, 20, 20, dtype=torch.bool, device=DEVICE).tril()
    for see in (Visible(mask=mask), Visible(causal=True, bias=torch.zeros(1, 4, 20, 20, device=DEVICE))):
        assert ours(q, k, v, see).kernel != "triton"
    assert ours(q.float(), k.float(), v.float(), Visible(causal=True)).kernel != "triton"
    assert ours(q.clone().requires_grad_(), k, v, Visible(causal=True)).kernel != "triton"
    odd = vectors(torch.float16, (4, 2), 20, 24)
    within_budget(ours(*odd, Visible()).out, plain(*odd, False), explicit(*(x.float() for x in odd), Visible()).out)
    assert {torch.float16, torch.bfloat16} < set(DTYPES)


COMPILE = """
import sys
from triton import compile
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from model.flash_triton import attention_kernel

capability, dtype, d, causal = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4] == "causal"
names = attention_kernel.arg_names
constants = {"CAUSAL": causal, "D": d, "BLOCK_Q": 64, "BLOCK_K": 64}
types = dict.fromkeys(names, "i32") | dict.fromkeys(("Q", "K", "V", "OUT"), f"*{dtype}") | {"scale": "fp32"}
types |= dict.fromkeys(constants, "constexpr")
source = ASTSource(attention_kernel, types, {(names.index(name),): value for name, value in constants.items()})
made = compile(source, target=GPUTarget("cuda", capability, 32))
print(made.metadata.shared, made.asm["ptx"].count("mma"), len(made.asm["cubin"]))
"""


@pytest.mark.parametrize(("capability", "dtype", "d", "mask"), [(80, "bf16", 64, "causal"), (90, "fp16", 128, "none")])
def test_it_compiles_for_gpus_that_are_not_here(tmp_path: Path, capability: int, dtype: str, d: int, mask: str) -> None:
    """To machine code that uses tensor cores and fits the small memory, in a process that does not interpret."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-c", COMPILE, str(capability), dtype, str(d), mask]
    environment |= {"TRITON_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    shared, products, size = map(int, done.stdout.split())
    assert products > 0
    assert size > 0
    assert shared <= 64 * 1024, "as much as a T4 has"
