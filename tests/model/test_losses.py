"""What a text's tokens cost."""

import math

import pytest
import torch

from model.losses import entropy, perplexity, token_losses


def test_losses_are_minus_log_probabilities_of_the_next_token() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(6, 11, generator=generator) * 3
    ids = torch.randint(11, (6,), generator=generator)
    expected = [-math.log(float(logits[t].double().softmax(0)[ids[t + 1]])) for t in range(5)]
    torch.testing.assert_close(token_losses(logits, ids), torch.tensor(expected))
    torch.testing.assert_close(token_losses(logits, ids.tolist()), torch.tensor(expected))
    torch.testing.assert_close(
        token_losses(logits.bfloat16(), ids), token_losses(logits.bfloat16().float(), ids), rtol=0, atol=0
    )


def test_one_token_has_no_loss() -> None:
    assert token_losses(torch.zeros(1, 5), [3]).shape == (0,)
    with pytest.raises(ValueError, match="at least two tokens"):
        perplexity(token_losses(torch.zeros(1, 5), [3]))


def test_perplexity_counts_equally_likely_choices() -> None:
    assert perplexity(token_losses(torch.zeros(8, 50), [1] * 8)) == pytest.approx(50)
    assert perplexity(torch.tensor([1e4])) == math.inf


def test_entropy_is_in_bits_along_the_last_axis() -> None:
    rows = torch.tensor([[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0.25] * 4, [0.5, 0.25, 0.125, 0.125]])
    assert entropy(rows).tolist() == pytest.approx([0, 1, 2, 1.75])
    assert float(entropy(torch.full((1024,), 1 / 1024, dtype=torch.float64))) == pytest.approx(10)


@pytest.mark.parametrize(("shape", "ids"), [((3, 5), [1, 2]), ((3,), [1, 2, 3]), ((2, 5), [1, 5]), ((2, 5), [-1, 0])])
def test_what_does_not_belong_together(shape: tuple[int, ...], ids: list[int]) -> None:
    with pytest.raises(ValueError, match=r"(?i)token ids"):
        token_losses(torch.zeros(shape), ids)
