"""A visit to the app under AppTest."""

from streamlit.testing.v1 import AppTest

from model.language import LanguageModel
from model.trace import Trace
from pages.kit.choices import Selection
from pages.kit.limits import MAX_TOKENS
from pages.kit.sitemap import START
from tests.conftest import REPOSITORY

# Recurrent cells read the text's ids as mere numbers, and the page draws no strip of them.
WITHOUT_STRIP = {"recurrence"}
TEXT = "The little cat sat on the mat because it was"


def visit(page: str = START, *, locale: str = "en-US", **parameters: object) -> AppTest:
    """Open a page by its address, in a browser of some language, as a first visit."""
    app = AppTest.from_file(str(REPOSITORY / "app.py"), default_timeout=120)
    app.context["locale"] = locale
    for name, value in parameters.items():
        app.query_params[name] = str(value)
    return turn_to(app, page)


def turn_to(app: AppTest, page: str) -> AppTest:
    """Go to another page in the same visit."""
    return app.switch_page(f"pages/{page}.py").run()


def selection(app: AppTest) -> Selection:
    return app.session_state["atlas_selection"].selection


def remarks(app: AppTest) -> str:
    """What the top of the page tells about the text and the choices, as it is in HTML."""
    return "\n".join(e.proto.body for e in app.main.get("html") if "atlas-remark" in e.proto.body)


def well(app: AppTest) -> AppTest:
    """The visit, if its page was drawn to the end."""
    assert not app.exception, app.exception
    assert not app.error, [error.value for error in app.error]
    return app


def traced(lm: LanguageModel, text: str = TEXT) -> Trace:
    """The run that pages show of a text, made once more."""
    return lm.trace(lm.tokenizer.encode(text)[:MAX_TOKENS])
