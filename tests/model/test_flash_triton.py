"""Our own CUDA kernel: on a GPU where there is one, else through Triton's interpreter on the CPU."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

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
    with pytest.raises(ValueError, match="do not fit"):
        flash_forward(q, *vectors(torch.float32, (4, 2), 20, 32)[1:], True)
    with pytest.raises(ValueError, match="power of two"):
        flash_forward(q, k, v, True, block_q=24)
    with pytest.raises(ValueError, match="over 0 keys"):
        flash_forward(q, k[:, :, :0], v[:, :, :0], False)
    assert flash_forward(q[:, :, :0], k, v, False).shape == (2, 4, 0, 16)


@given(
    st.sampled_from([(1, 1), (3, 1), (4, 2), (6, 6)]),
    st.integers(1, 70),
    st.integers(1, 70),
    st.sampled_from([16, 32, 64]),
    st.sampled_from([16, 32, 64]),
    st.booleans(),
)
@settings(max_examples=25)
def test_any_length_and_block_is_attention_in_double_precision(heads, n, keys, block_q, block_k, causal):
    """Blocks larger than the text, one token, other lengths of queries and keys."""
    keys = n if causal else keys
    q, k, v = vectors(torch.float32, heads, n, 16, batch=1, keys=keys)
    exact = torch.nn.functional.scaled_dot_product_attention(
        *(x.double() for x in (q, repeat_kv(k, heads[0]), repeat_kv(v, heads[0]))), is_causal=causal
    )
    found = flash_forward(q, k, v, causal, block_q=block_q, block_k=block_k)
    torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=1e-5)


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


def test_where_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """From compute capability 8.0 on, as Triton asks; and where Triton is not installed, torch's kernels do it all."""
    cuda, capability = torch.device("cuda"), (8, 0)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert kernels.own_kernel_runs(cuda)
    assert not kernels.own_kernel_runs(torch.device("cpu"))
    capability = (7, 5)
    assert not kernels.own_kernel_runs(cuda)
    capability = (9, 0)
    monkeypatch.setattr(kernels, "find_spec", lambda name: None)
    assert not kernels.own_kernel_runs(cuda)


# What `flash_forward` launches, with the very arguments that it gives (Triton compiles other code for vectors that lie
# at multiples of 16 bytes, as these do), but for a GPU that is not here, and not run.
COMPILE = """
import sys
import torch
from triton import runtime
from triton.backends.compiler import GPUTarget
from model import flash_triton

capability, dtype, d, causal = int(sys.argv[1]), getattr(torch, sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "causal"


class Driver:
    def get_current_target(self):
        return GPUTarget("cuda", capability, 32)

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0


class Launch:
    def __getitem__(self, grid):
        return lambda *args, **options: made.append(kernel.run(*args, grid=grid, warmup=True, **options))


runtime.driver.set_active(Driver())
kernel, made = flash_triton.attention_kernel, []
flash_triton.attention_kernel = Launch()
q, k = torch.zeros(2, 8, 300, d, dtype=dtype), torch.zeros(2, 2, 300, d, dtype=dtype)
flash_triton.flash_forward(q, k, k, causal)
(one,) = made
print(one.metadata.shared, one.asm["ptx"].count("mma"), one.asm["ptx"].count("cp.async"), len(one.asm["cubin"]))
"""


@pytest.mark.parametrize(
    ("capability", "dtype", "d", "mask", "kib"),
    [(86, "bfloat16", 128, "causal", 99), (90, "float16", 128, "none", 227), (80, "float16", 64, "causal", 163)],
)
def test_it_compiles_for_gpus_that_are_not_here(
    tmp_path: Path, capability: int, dtype: str, d: int, mask: str, kib: int
) -> None:
    """To machine code that uses tensor cores, fetches ahead, and fits the small memory that a block of threads may have
    (CUDA's programming guide, compute capabilities), in a process that does not interpret.
    """
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-c", COMPILE, str(capability), dtype, str(d), mask]
    environment |= {"TRITON_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    shared, products, fetches, size = map(int, done.stdout.split())
    assert products > 0
    assert fetches > 0
    assert size > 0
    assert shared <= kib * 1024
