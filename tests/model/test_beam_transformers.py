"""Beam search beside Transformers' `generate(num_beams=…)`, in the settings where both mean the same.

Transformers divides a hypothesis' log-probability by length^length_penalty, we by ((5 + length) / 6)^alpha, as
Wu et al. write it. It also keeps hypotheses that have ended beside the beam, we in it. So the two agree

- where no text ends: all hypotheses are equally long, and the same penalty on each changes no order;
- without a penalty (length_penalty = alpha = 0), as to the best one: what we leave out in favour of an ended hypothesis
  is less probable already, and no further token can make it more so.
"""

import pytest
import torch

from model.beam import beam_search
from model.zoo.readers import load_checkpoint
from tests.model.test_parity_families import DECODERS, GROUPED, hf, saved

FAMILIES = {"gpt2": DECODERS["gpt2"], "llama": (hf.LlamaForCausalLM, hf.LlamaConfig, GROUPED)}
PROMPT = [1, 17, 4, 30]


def theirs_found(model, beam, new, **options):
    """The hypotheses that Transformers returns, best first: new tokens, and the score it gives."""
    options |= {"do_sample": False, "early_stopping": False, "pad_token_id": 0, "return_dict_in_generate": True}
    found = model.generate(
        torch.tensor([PROMPT]),
        attention_mask=torch.ones(1, len(PROMPT), dtype=torch.long),
        num_beams=beam,
        num_return_sequences=beam,
        max_new_tokens=new,
        output_scores=True,
        **options,
    )
    return found.sequences[:, len(PROMPT) :].tolist(), found.sequences_scores.tolist()


@pytest.mark.parametrize("beam", [2, 5])
@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_where_no_text_ends_all_hypotheses_are_those_of_transformers(tmp_path, family, beam):
    model, config, options = FAMILIES[family]
    theirs = saved(tmp_path, model, config, options | {"eos_token_id": None})
    theirs.generation_config.eos_token_id = None
    ours = load_checkpoint(tmp_path)
    assert not ours.config.eos_ids
    sequences, scores = theirs_found(theirs, beam, 9, length_penalty=1.0)
    for alpha in (0.0, 0.6):
        last = list(beam_search(ours, PROMPT, beam=beam, max_new_tokens=9, alpha=alpha))[-1]
        assert [list(h.ids) for h in last.kept] == sequences
        assert [h.logprob / 9 for h in last.kept] == pytest.approx(scores, abs=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_without_a_penalty_the_best_text_is_that_of_transformers(tmp_path, family):
    model, config, options = FAMILIES[family]
    saved(tmp_path / "endless", model, config, options | {"eos_token_id": None})
    endless = beam_search(load_checkpoint(tmp_path / "endless"), PROMPT, beam=4, max_new_tokens=8, alpha=0.0)
    likely = {token for h in list(endless)[-1].kept for token in h.ids}
    ended = []
    for end in [*sorted(likely)[:5], 3]:  # any token may be the one that ends a text
        folder = tmp_path / str(end)
        theirs = saved(folder, model, config, options | {"eos_token_id": end})
        theirs.generation_config.eos_token_id = end
        sequences, scores = theirs_found(theirs, 4, 8, length_penalty=0.0)
        best = list(beam_search(load_checkpoint(folder), PROMPT, beam=4, max_new_tokens=8, alpha=0.0))[-1].best
        assert list(best.ids) == sequences[0][: len(best.ids)]
        assert set(sequences[0][len(best.ids) :]) <= {end}  # what Transformers fills up with
        assert best.logprob == pytest.approx(scores[0], abs=1e-5)
        ended.append(best.ended)
    assert set(ended) == {True, False}
