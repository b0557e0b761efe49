"""A visit to the app under AppTest."""

from streamlit.testing.v1 import AppTest

from pages.kit.choices import Selection
from pages.kit.sitemap import START
from tests.conftest import REPOSITORY


def visit(page: str = START, *, locale: str = "en-US", **parameters: str) -> AppTest:
    """Open a page by its address, in a browser of some language, as a first visit."""
    app = AppTest.from_file(str(REPOSITORY / "app.py"), default_timeout=120)
    app.context["locale"] = locale
    for name, value in parameters.items():
        app.query_params[name] = value
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
