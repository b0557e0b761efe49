"""The tree of texts: equal to one made by hand, and every path of it a text that was written."""

import pytest

from model.analysis.beam_continuation import BeamContinuation
from model.analysis.continuation_tree import Node, Path, paths_of, tree
from model.analysis.continuations import Continuation
from model.beam import Hypothesis
from model.sampling import SamplingSettings


def test_a_tree_made_by_hand():
    paths = [
        Path(((7, -1.0), (8, -0.5), (9, -0.25)), "text", 0),
        Path(((7, -1.0), (8, -0.5), (4, -2.0)), "text", 1),
        Path(((7, -1.0), (5, -3.0)), "dropped", 1),
        Path(((6, -4.0),), "kept", 1, 1),
        Path(((7, -1.0), (8, -0.5)), "text", 2),
        Path(((6, -4.0), (8, -0.5)), "dropped", 1),
    ]
    assert tree(paths) == (
        Node((7,), None, -1.0, -1.0, "text", ()),
        Node((7, 8), 0, -0.5, -1.5, "text", (4,)),
        Node((7, 8, 9), 1, -0.25, -1.75, "text", (0,)),
        Node((7, 8, 4), 1, -2.0, -3.5, "text", (1,)),
        Node((7, 5), 0, -3.0, -4.0, "dropped", (2,)),
        Node((6,), None, -4.0, -4.0, "kept", (3,)),
        Node((6, 8), 5, -0.5, -4.5, "dropped", (5,)),
    )
    assert tree([]) == ()
    assert tree(paths)[2].mean == pytest.approx(-1.75 / 3)


@pytest.fixture
def texts(storyteller):
    prompt = storyteller.tokenizer.encode("The little cat sat on the mat because it was")
    found = [Continuation(storyteller, prompt, SamplingSettings(temperature=t, seed=1)) for t in (0.0, 1.0)]
    found.append(BeamContinuation(storyteller, prompt, 3, 0.6))
    for text in found:
        for _ in range(9):
            text.advance()
    return found


def test_the_texts_are_paths_of_their_tree(texts):
    nodes = tree(paths_of(texts))
    by_ids = {node.ids: node for node in nodes}
    assert len(by_ids) == len(nodes)
    for number, text in enumerate(texts):
        ids = tuple(token.id for token in text.written)
        assert number in by_ids[ids].ends
        assert by_ids[ids].total == pytest.approx(text.total_logprob, abs=1e-4)
        for n, token in enumerate(text.written, start=1):
            assert by_ids[ids[:n]].kind == "text"
            assert by_ids[ids[:n]].logprob == pytest.approx(token.logprob, abs=1e-4)
    for node in nodes:
        assert node.ids[:-1] == (() if node.parent is None else nodes[node.parent].ids)


@pytest.mark.parametrize("steps", [1, 4, None])
def test_beam_search_is_shown_after_any_step(texts, steps):
    beam = texts[2]
    paths = [path for path in paths_of(texts, steps) if path.text == 2]
    shown = beam.steps[(steps or 9) - 1]
    assert [path.ids for path in paths if path.order is not None] == [h.ids for h in shown.kept]
    assert [path.kind for path in paths][:3] == ["text", "kept", "kept"]
    dropped = [path.ids for path in paths if path.kind == "dropped"]
    earlier = [h.ids for number in range((steps or 9) - 1) for h in beam.fell(number)]
    assert dropped == earlier + [h.ids for h in shown.dropped]
    assert not set(dropped) & {h.ids for h in shown.kept}
    for path in paths:
        assert path.total == pytest.approx(
            sum(token.logprob for token in beam.tokens_of(Hypothesis(path.ids, (), False)))
        )


def test_nothing_written_is_no_path(storyteller):
    texts = [Continuation(storyteller, [5], SamplingSettings()), BeamContinuation(storyteller, [5], 2, 0.0)]
    assert paths_of(texts) == ()
