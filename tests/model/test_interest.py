"""The opening view of a run, and the parameter count."""

import torch

from model.analysis.interest import interesting_keys, most_interesting, strongest_cell
from model.analysis.parameters import parameters_by_part
from model.config import TransformerConfig
from model.transformer import Transformer


class Run:
    """A hand-made run of two layers of two heads."""

    def __init__(self, patterns):
        self.patterns = patterns
        self.tokens = list(range(patterns[0].shape[-1]))
        self.config = TransformerConfig(
            vocab_size=9, d_model=8, n_layers=len(patterns), n_heads=2, n_kv_heads=2, d_head=4, d_ff=8, max_positions=9
        )

    def __getitem__(self, name):
        return self.patterns[int(name.split(".")[1])]


def previous_token_heads(n):
    pattern = torch.zeros(2, n, n)
    pattern[:, 0, 0] = 1
    for query in range(1, n):
        pattern[:, query, query - 1] = 1
    return pattern


def test_a_head_that_looks_far_back_beats_those_that_look_next_to_them():
    layers = [previous_token_heads(6), previous_token_heads(6)]
    layers[1][1, 5] = torch.tensor([0.1, 0.1, 0.7, 0.05, 0.05, 0.0])
    assert most_interesting(Run(layers)) == (1, 1, 5, 2)
    assert strongest_cell(Run(layers), 1, 1, query=5).key == 2
    # A query without a telling key still gets its strongest one.
    assert strongest_cell(Run(layers), 0, 0, query=3).key == 2


def test_short_texts_have_a_view_too():
    assert most_interesting(Run([torch.ones(2, 1, 1)])) == (0, 0, 0, 0)
    two = torch.tensor([[[1.0, 0.0], [0.9, 0.1]], [[1.0, 0.0], [0.2, 0.8]]])
    assert most_interesting(Run([two])) == (0, 0, 1, 0)


def test_the_first_token_oneself_and_the_one_before_do_not_count():
    counted = interesting_keys(5)
    assert counted.nonzero().tolist() == [[3, 1], [4, 1], [4, 2]]


def test_the_real_model_opens_on_a_cell_of_its_own(storyteller):
    run = storyteller.trace("The little cat sat on the mat because it was")
    place = most_interesting(run)
    assert 0 < place.key < place.query - 1
    row = run[f"blocks.{place.layer}.attn.hook_pattern"][place.head, place.query]
    assert row[place.key] == row[1 : place.query - 1].max()


def test_parts_sum_to_all_parameters(storyteller):
    parts = parameters_by_part(storyteller.transformer)
    assert sum(parts.values()) == sum(p.numel() for p in storyteller.transformer.parameters())
    # By hand: 8192·256; 6·(2·256·256 + 2·256·128); 6·3·256·704; 13·256.
    assert parts == {"embedding": 2_097_152, "attention": 1_179_648, "feed_forward": 3_244_032, "norms": 3_328}


def test_every_option_is_counted_once():
    config = TransformerConfig(
        vocab_size=11, d_model=8, n_layers=2, n_heads=2, n_kv_heads=1, d_head=4, d_ff=12, max_positions=7,
        kind="encoder_decoder", n_encoder_layers=1, positions="learned", norm="layernorm", activation="gelu_erf",
        qkv_bias=True, out_bias=True, mlp_bias=True, tied_embeddings=False,
    )  # fmt: skip
    model = Transformer(config)
    parts = parameters_by_part(model)
    assert sum(parts.values()) == sum(p.numel() for p in model.parameters())
    assert parts["positions"] == 2 * 7 * 8 and parts["unembedding"] == 11 * 8


def test_the_search_stays_in_the_chosen_layer_and_head():
    layers = [previous_token_heads(6), previous_token_heads(6)]
    layers[0][1, 4] = torch.tensor([0.2, 0.4, 0.2, 0.1, 0.1, 0.0])
    layers[1][1, 5] = torch.tensor([0.1, 0.1, 0.7, 0.05, 0.05, 0.0])
    assert most_interesting(Run(layers), layer=0) == (0, 1, 4, 1)
    assert most_interesting(Run(layers), head=0)[:2] == (0, 0)
    assert most_interesting(Run(layers), layer=1, head=0)[:2] == (1, 0)
