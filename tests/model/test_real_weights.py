"""Real weights from the package index: the numbers of Transformers, from the same files.

Skipped, with the reason, where neither the models folder nor the index has them.
"""

import copy
import os

import pytest
import torch
import transformers as hf

from model import load
from model.analysis.sentence import sentence_embedding
from model.sampling import SamplingSettings
from model.zoo.fetch import FetchError, fetch

PROMPTS = [
    "The capital of France is",
    "def fibonacci(n):",
    "The year 1492 was followed by",
    "Once upon a time, in a small village,",
    "Water boils at a temperature of",
]
SENTENCES = [
    "The cat sits on the mat.",
    "A kitten is lying on a rug.",
    "我今天很开心",
    "Stock markets fell 3% in 2008!",
]


@pytest.fixture(scope="module")
def fetched():
    """Fetch a model into the folder that an operator would use, so that the next run finds it there."""
    with pytest.MonkeyPatch.context() as patch:
        own = os.environ.get("ATLAS_REAL_MODELS")
        patch.setenv("ATLAS_MODELS", own) if own else patch.delenv("ATLAS_MODELS")
        patch.setenv("PIP_RETRIES", "1")
        patch.setenv("PIP_DEFAULT_TIMEOUT", "15")

        def get(name):
            try:
                folder = fetch(name)
            except FetchError as error:  # what is there and cannot be loaded is a failure
                pytest.skip(str(error))
            return folder, load(name, device="cpu")

        yield get


@pytest.fixture(scope="module")
def smollm2(fetched):
    """Ours, and Transformers' reading of the same GGUF file."""
    folder, lm = fetched("smollm2-135m-instruct")
    (file,) = folder.glob("*.gguf")
    theirs = hf.AutoModelForCausalLM.from_pretrained(folder, gguf_file=file.name, dtype=torch.float32)
    return lm, theirs.eval(), copy.deepcopy(theirs).double()


@pytest.mark.parametrize("prompt", PROMPTS)
@torch.no_grad()
def test_smollm2_equals_transformers(smollm2, prompt):
    """In fp64 theirs are exact: what is left is the rounding of ours, whichever library multiplies."""
    lm, theirs, exact = smollm2
    run = lm.trace(prompt)
    ids = torch.tensor([run.tokens])
    torch.testing.assert_close(run.logits.double(), exact(ids).logits[0], rtol=0, atol=2e-4)
    written = [step.id for step in lm.generate(prompt, 40, SamplingSettings(temperature=0))]
    expected = theirs.generate(ids, max_new_tokens=40, do_sample=False)[0, ids.shape[1] :]
    assert written == expected.tolist()


def test_smollm2_knows_the_capital_of_france(smollm2):
    lm, *_ = smollm2
    probabilities = lm.trace("The capital of France is").logits[-1].softmax(-1)
    assert lm.tokenizer.token_strings([int(probabilities.argmax())]) == [" Paris"]
    assert float(probabilities.max()) == pytest.approx(0.77, abs=0.01)


def test_smollm2_sees_single_digits_and_its_own_marks(smollm2):
    lm, *_ = smollm2
    assert lm.tokenizer.token_strings(lm.tokenizer.encode("in 1492")) == ["in", " ", "1", "4", "9", "2"]
    turn = lm.tokenizer.encode("<|im_start|>user\nHi<|im_end|>", parse_special=True)
    assert (turn[0], turn[-1]) == (1, lm.config.eos_id)


@pytest.fixture(scope="module")
def minilm(fetched):
    """Ours, and Transformers' model and tokenizer of the same folder."""
    folder, lm = fetched("all-minilm-l6-v2")
    return lm, hf.AutoModel.from_pretrained(folder).eval(), hf.AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("sentence", SENTENCES)
@torch.no_grad()
def test_minilm_equals_transformers(minilm, sentence):
    lm, theirs, tokenizer = minilm
    run, inputs = lm.trace(sentence), tokenizer(sentence, return_tensors="pt")
    real = inputs["attention_mask"][0].bool()
    assert run.tokens == inputs["input_ids"][0][real].tolist()
    hidden = theirs(**inputs).last_hidden_state[0][real]
    torch.testing.assert_close(run["hook_output"], hidden, rtol=0, atol=1e-5)
    mean = hidden.mean(0)
    torch.testing.assert_close(sentence_embedding(run), mean / mean.norm(), rtol=0, atol=1e-5)


def test_minilm_finds_like_sentences_alike(minilm):
    lm, _, _ = minilm
    cat, kitten, _, markets = (sentence_embedding(lm.trace(sentence)) for sentence in SENTENCES)
    assert float(cat @ kitten) > 0.5 > 0.3 > float(cat @ markets)


def test_a_model_with_a_head_has_no_vector_for_a_text(storyteller):
    with pytest.raises(ValueError, match="Only a model of sentences"):
        sentence_embedding(storyteller.trace("a"))
    assert "hook_output" not in storyteller.trace("a")
