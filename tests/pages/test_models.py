"""Other models in the app: every page says what it can, a spoiled model is told of, and downloads are the server's."""

import gc
import re
import shutil
import threading
import weakref

import pytest
import tokenizers
from safetensors.torch import load_file, save_file

from model.zoo.catalog import CATALOG, Entry
from model.zoo.fetch import FETCH_FAULTS, FetchError
from model.zoo.files import FAULTS, CheckpointError
from pages.kit import fetching, loading, position_data
from pages.kit.loading import ModelCache
from pages.kit.numbers import memory
from pages.kit.prose import COMMON, LANGUAGES, Prose, escape, sections
from pages.kit.sitemap import ABOUT_NEXT_TOKEN, PAGES
from tests.model.test_parity_families import DECODERS, ENCODERS
from tests.model.tiny import randomise
from tests.pages.component_io import sent
from tests.pages.reading import fragments
from tests.pages.visit import remarks, selection, visit, well

STORYTELLER = CATALOG["storyteller"].folder
FAMILIES = {"gpt2": "gpt2", "qwen3": "qwen3", "pythia": "gpt_neox", "bert": "bert", "gaps": "bert, masked"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An operator's folder with a tiny random model of several families, all with storyteller's tokenizer."""
    path = tmp_path_factory.mktemp("models")
    for name, family in FAMILIES.items():
        model, config, options = (DECODERS | ENCODERS)[family]
        longest = "n_positions" if family == "gpt2" else "max_position_embeddings"
        theirs = randomise(model(config(**options | {"vocab_size": 8192, longest: 300})))
        theirs.save_pretrained(path / name)
        shutil.copy(STORYTELLER / "tokenizer.json", path / name)
    shutil.copytree(path / "gpt2", path / "spoiled")
    data = (path / "spoiled" / "model.safetensors").read_bytes()
    (path / "spoiled" / "model.safetensors").write_bytes(data[:-1])
    return path


@pytest.fixture(autouse=True)
def operator(folder, monkeypatch):
    monkeypatch.setenv("ATLAS_MODELS", str(folder))


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("name", [*FAMILIES, "reader"])
def test_every_page_shows_every_kind_of_model_or_says_what_it_lacks(name, page):
    app = well(visit(page, model=name))
    assert selection(app).model == name
    config = loading.model(name).config
    lacks = page in ABOUT_NEXT_TOKEN and config.kind != "decoder"
    assert any("Choose" in note.value and name in note.value for note in app.info) == lacks
    assert bool([b for b in app.button if b.key == "use_default_model"]) == lacks


def test_the_bundled_encoder_is_offered_among_those_that_fill_gaps():
    app = well(visit("attention"))
    assert "reader · fills gaps" in app.sidebar.selectbox[0].options
    app = well(app.sidebar.selectbox[0].set_value("reader").run())
    assert selection(app).model == "reader"
    # What it lacks is said, with the way to what it does instead.
    app = well(visit("next_token", model="reader"))
    assert any("fill a gap" in m.value for m in app.main.markdown)
    app = well(visit("next_token", model="bert"))  # an encoder without an output
    assert not any("fill a gap" in m.value for m in app.main.markdown)


def test_an_encoder_s_pages_open_on_words_and_speak_of_its_guess():
    for page in ("tokenization", "embeddings", "feed_forward", "residual"):
        pieces = sent(well(visit(page, model="reader")), "strip")[0]
        assert not pieces["pieces"][pieces["query"]]["special"], page
    for locale, word in (("en-US", "next token"), ("zh-CN", "下一个词元")):
        app = well(visit("feed_forward", model="reader", locale=locale))
        said = [e.value for e in app.main if e.type in ("markdown", "info")]
        assert not [text for text in said if word in text]
    app = well(visit("feed_forward", model="reader"))
    assert any("reader writes nothing" in note.value for note in app.info)


def test_a_tokenizer_that_makes_letters_small_does_not_give_the_text_back():
    app = well(visit("tokenization", model="reader", text="The little cat"))
    page = "".join(fragments(app))
    assert Prose("tokenization").plain("strip_not_joined") in page
    assert "other tokens" not in page
    assert any("capital letters" in m.value for m in app.main.markdown)
    app = well(visit("tokenization", model="reader", text=" the little cat"))
    assert Prose("tokenization").plain("strip_joined") in "".join(fragments(app))


def test_small_models_read_the_text_without_an_encoder_s_frame():
    app = well(visit("positions", model="reader", text="the little cat"))
    small = position_data.models()["none"].tokenizer
    assert sent(app, "says")[0]["labels_q"] == small.labels(small.encode("the little cat"))


def test_from_a_page_that_lacks_something_one_click_leads_back():
    app = visit("next_token", model="bert")
    app = well(app.button(key="use_default_model").click().run())
    assert selection(app).model == "storyteller"
    assert not [b for b in app.button if b.key == "use_default_model"]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_fault_is_said_in_the_reader_s_language(lang):
    names = [f"fault_{fault}" for fault in FAULTS] + [f"fetch_{fault}" for fault in (*FETCH_FAULTS, "other")]
    for name in names:
        assert bool(re.search("[一-鿿]", sections(COMMON, lang)[name])) == (lang == "zh"), name


@pytest.mark.parametrize(("locale", "why"), [("en-US", "damaged, cut off"), ("zh-CN", "坏了、不完整")])
def test_a_spoiled_model_is_told_of_and_the_bundled_one_shown(locale, why):
    app = well(visit("overview", locale=locale, model="spoiled"))
    assert selection(app).model == "storyteller"
    assert "spoiled" in remarks(app)
    assert why in remarks(app)
    assert "damaged or not a safetensors file" in remarks(app)


def test_weights_that_are_no_numbers_are_told_of(folder):
    path = shutil.copytree(folder / "gpt2", folder / "nan")
    tensors = load_file(path / "model.safetensors")
    save_file({name: tensor * float("nan") for name, tensor in tensors.items()}, path / "model.safetensors")
    app = well(visit("overview", model="nan"))
    assert selection(app).model == "storyteller"
    assert "no finite numbers" in remarks(app)
    shutil.rmtree(path)


def test_a_link_cannot_name_a_path():
    for name in ("../storyteller", str(STORYTELLER), "gpt2/../gpt2", ".", "", "smollm2-135m-instruct"):
        app = well(visit("overview", model=name))
        assert selection(app).model == "storyteller"


def names(cache):
    """Of the models in memory."""
    return [name for name, *_ in cache.sizes()]


def test_models_that_were_used_longest_ago_leave_when_it_gets_too_much():
    one = loading.model("gpt2").nbytes
    cache = ModelCache(limit=int(3.5 * one))
    for name in ("gpt2", "gpt2", "qwen3", "gaps"):
        cache.get(name)
    assert names(cache) == ["gpt2", "qwen3", "gaps"] or sum(cache.sizes().values()) <= cache.limit
    cache.get("gpt2")
    kept = cache.get("storyteller")
    assert names(cache) == ["storyteller"]  # larger than the limit by itself, and yet the one in use
    assert cache.get("storyteller") is kept
    assert cache.get("gpt2").name == "gpt2"
    with pytest.raises(CheckpointError):
        cache.get("spoiled")
    assert names(cache) == ["gpt2"]


def test_a_folder_may_have_any_name(folder, tmp_path, monkeypatch):
    name = "storyteller, int8, auto"
    shutil.copytree(folder / "gpt2", tmp_path / name)
    monkeypatch.setenv("ATLAS_MODELS", str(tmp_path))
    cache = ModelCache()
    assert cache.get("storyteller", "int8", "auto").id == "storyteller"
    assert cache.get(name).id == name


def test_a_tokenizer_that_cannot_encode_every_text_is_told_of(folder, tmp_path, monkeypatch):
    shutil.copytree(folder / "gpt2", tmp_path / "words")
    words = tokenizers.models.WordLevel({"a": 0}, unk_token="[UNK]")
    tokenizers.Tokenizer(words).save(str(tmp_path / "words" / "tokenizer.json"))
    monkeypatch.setenv("ATLAS_MODELS", str(tmp_path))
    app = well(visit("overview", model="words", text="something else"))
    assert selection(app).model == "storyteller"
    assert "Its tokenizer cannot be used" in remarks(app)


def test_the_page_on_positions_shows_a_model_with_very_few(tmp_path, monkeypatch):
    model, config, options = DECODERS["gpt2"]
    theirs = randomise(model(config(**options | {"vocab_size": 8192, "n_positions": 2})))
    theirs.save_pretrained(tmp_path / "short")
    shutil.copy(STORYTELLER / "tokenizer.json", tmp_path / "short")
    monkeypatch.setenv("ATLAS_MODELS", str(tmp_path))
    assert selection(well(visit("positions", model="short"))).model == "short"


@pytest.fixture
def offer(monkeypatch, folder):
    """A model that can be fetched here, and an event that ends its download."""
    go = threading.Event()

    class Source:
        name = "a test"

        def get(self, part, progress, cancelled):
            progress(40)
            while not go.wait(0.02):
                if cancelled():
                    raise fetching.FetchCancelled
            for path in (folder / "gpt2").iterdir():
                shutil.copy(path, part)

    entry = Entry("fetched", "gpt2", ("en",), "MIT", "base", (Source(),), 1, 100)
    monkeypatch.setitem(CATALOG, "fetched", entry)
    yield go
    go.set()
    shutil.rmtree(folder / "fetched", ignore_errors=True)


def with_list(app):
    """The page with its list of models to fetch opened."""
    app.session_state["more_models"] = True
    return well(app.run())


def test_the_list_of_models_to_fetch_is_made_when_it_is_opened(offer):
    app = well(visit("tokenization"))
    assert not [b for b in app.button if b.key == "get_fetched"]
    assert [b for b in with_list(app).button if b.key == "get_fetched"]


def test_a_model_is_fetched_from_the_app_while_it_stays_in_use(offer):
    app = with_list(visit("tokenization"))
    (about,) = [m.value for m in app.markdown if "**fetched**" in m.value]
    assert "MIT" in about
    app = well(app.button(key="get_fetched").click().run())
    job = fetching.jobs().get("fetched")
    assert app.button(key="stop_fetched")
    assert fetching.jobs().running()
    fetching.jobs().start(CATALOG["fetched"])  # a second reader
    assert fetching.jobs().get("fetched") is job
    offer.set()
    assert job.ended.wait(20)
    assert job.error == ""
    app = well(app.run())
    assert "fetched" in app.selectbox[0].options[1] + str(app.selectbox[0].options)
    assert not [b for b in app.button if b.key == "get_fetched"]
    assert selection(well(visit("tokenization", model="fetched"))).model == "fetched"


def test_a_download_can_be_stopped_and_a_failure_is_said(offer, monkeypatch):
    app = with_list(visit("tokenization"))
    app.button(key="get_fetched").click().run()
    well(app.button(key="stop_fetched").click().run())
    job = fetching.jobs().get("fetched")
    assert job.ended.wait(20)
    assert job.error == ""
    monkeypatch.setattr(fetching, "fetch", lambda *a: (_ for _ in ()).throw(CheckpointError("no network today")))
    app = with_list(visit("tokenization"))
    app.button(key="get_fetched").click().run()
    assert fetching.jobs().get("fetched").ended.wait(20)
    app = well(app.run())
    assert any("no network today" in caption.value for caption in app.caption)
    error = FetchError("offline", "a long story")
    monkeypatch.setattr(fetching, "fetch", lambda *a: (_ for _ in ()).throw(error))
    app = with_list(visit("tokenization", locale="zh-CN"))
    app.button(key="get_fetched").click().run()
    assert fetching.jobs().get("fetched").ended.wait(20)
    app = well(app.run())
    assert any("连不上提供 fetched 的下载源" in caption.value for caption in app.caption)


def test_what_pages_keep_of_a_model_leaves_with_it(monkeypatch):
    for page in ("embeddings", "tokenization", "feed_forward", "flash", "attention", "heads", "next_token"):
        well(visit(page, model="qwen3"))
    model = weakref.ref(loading.model("qwen3"))
    table, tokenizer = weakref.ref(model().transformer.embed.weight), weakref.ref(model().tokenizer)
    monkeypatch.setattr(loading.models(), "limit", 1)
    loading.models().drop(lambda key: key[0] != "qwen3")
    well(visit("overview"))  # the bundled model comes, and the other has to leave for it
    assert names(loading.models()) == ["storyteller"]
    gc.collect()
    assert (model(), table(), tokenizer()) == (None, None, None)


def test_the_list_of_models_is_grouped_by_kind_and_says_what_is_here():
    app = with_list(well(visit("tokenization", model="qwen3")))
    texts = [e.value for e in app.sidebar if e.type in ("markdown", "caption")]
    say = Prose("common")
    headings = [say.plain(f"kinds_{kind}") for kind in ("base", "chat", "masked", "sentences", "own")]
    places = [texts.index(f"**{heading}**") for heading in headings]
    assert places == sorted(places)
    # The one that is bundled, with its size, its licence and its state; nothing to fetch.
    (about,) = [text for text in texts if text.startswith("**storyteller**")]
    assert "6\\.5 M parameters · en\\, zh · MIT" in about
    assert "bundled · 13 MB" in about
    # One to fetch, with the bytes of the download.
    (about,) = [text for text in texts if text.startswith(r"**smollm2")]
    assert places[1] < texts.index(about) < places[2]
    assert "135 M parameters" in about
    assert app.button(key="get_smollm2-135m-instruct").label == "Get it (93 MB)"
    # The operator's own: in memory, and another that is shown by a click.
    (about,) = [text for text in texts if text.startswith("**qwen3**")]
    nbytes = loading.model("qwen3").nbytes
    assert "on this machine" in about
    assert f"in memory: {escape(memory(nbytes))}" in about
    assert not [b for b in app.button if b.key == "show_qwen3"]
    app = well(app.button(key="show_gpt2").click().run())
    assert selection(app).model == "gpt2"


@pytest.mark.parametrize("page", ["cost", "kv_cache"])
def test_the_loaded_model_is_named_as_it_is(folder, tmp_path, monkeypatch, page):
    """Options of a box are plain text: escaped as Markdown they would show backslashes."""
    shutil.copytree(folder / "gpt2", tmp_path / "small-gpt_2")
    monkeypatch.setenv("ATLAS_MODELS", str(tmp_path))
    app = well(visit(page, model="small-gpt_2"))
    assert app.main.selectbox(key="choose_plan").options[0] == "small-gpt_2 (loaded)"


@pytest.mark.parametrize("page", ["attention", "residual", "feed_forward"])
def test_a_layer_stays_chosen_between_a_deep_model_and_a_shallow_one(folder, tmp_path, monkeypatch, page):
    """The deep one has a list of layers where the other has buttons: each time a new widget, nothing chosen yet."""
    model, config, options = DECODERS["gpt2"]
    theirs = randomise(model(config(**options | {"vocab_size": 8192, "n_positions": 300, "n_layer": 20})))
    theirs.save_pretrained(tmp_path / "deep")
    shutil.copy(STORYTELLER / "tokenizer.json", tmp_path / "deep")
    monkeypatch.setenv("ATLAS_MODELS", str(tmp_path))
    app = well(visit(page, model="deep", layer=19))  # storyteller's last is 5
    for name in ("storyteller", "deep", "storyteller", "deep"):
        app = well(app.sidebar.selectbox(key="choose_model").set_value(name).run())
        assert (selection(app).model, selection(app).layer) == (name, 5)
