"""Self-contained pages: what is refused, what counts as a linked number, and how one looks in Chromium."""

from pathlib import Path

import plotly.graph_objects as go
import pytest

from torchport.pages import browser, evidence_link, foreign, look, plot, save, unlinked_numbers
from torchport.pages.page import Pages

TEMPLATE = """{% extends "base.html.j2" %}{% block content %}
<h1>{{ title }}</h1><p>{{ link("3.5 %", "run:1/x") }}</p>{{ figure }}<ul data-free><li id="ev-run-1-x">run 1</li></ul>
{% endblock %}"""


@pytest.fixture
def made(tmp_path: Path) -> Pages:
    (tmp_path / "t.html.j2").write_text(TEMPLATE)
    found = Pages(tmp_path)
    found.add(link=evidence_link)
    return found


def figure() -> go.Figure:
    return go.Figure([go.Bar(x=["</script><b>", "b"], y=[1, 2])])


@pytest.mark.parametrize(
    ("markup", "loads"),
    [
        ('<script src="https://cdn.example/x.js"></script>', 1),
        ('<link rel="stylesheet" href="x.css">', 1),
        ('<img src="picture.png">', 1),
        ('<img srcset="//a.example/1.png 2x">', 1),
        ('<style>@import "https://a.example/x.css";</style>', 1),
        ('<p style="background: url(http://a.example/x.png)">', 1),
        ('<meta http-equiv="refresh" content="0; url=https://a.example">', 1),
        ('<iframe src="https://a.example"></iframe><object data="x"></object>', 2),
        ('<a href="https://a.example/source">the source</a>', 0),
        ('<img src="data:image/png;base64,AA=="><svg><use href="#a"></use></svg>', 0),
        ("<style>p { background: url(data:image/png;base64,AA==) }</style>", 0),
    ],
)
def test_what_a_page_would_load(markup: str, loads: int) -> None:
    assert len(foreign(markup)) == loads


def test_a_page_that_loads_something_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_text("before")
    with pytest.raises(ValueError, match=r"must load nothing from elsewhere, got <script src"):
        save(path, '<script src="https://a.example/x.js"></script>')
    assert path.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["a.html"]


def test_numbers_must_lead_to_evidence() -> None:
    good = '<p>cost <a href="#ev-1">7</a></p><ul data-free><li id="ev-1">run 12</li></ul>'
    assert unlinked_numbers(good) == []
    assert unlinked_numbers("<p>cost 7 EUR</p>") == ["cost 7 EUR"]
    assert unlinked_numbers('<p><a href="#ev-2">8</a></p>') == ["8"]  # the anchor is missing
    assert unlinked_numbers('<p><a href="https://a.example">9</a></p>') == ["9"]


def test_an_undefined_value_is_an_error(made: Pages) -> None:
    with pytest.raises(Exception, match="'figure' is undefined"):
        made.render("t.html.j2", title="t")


def test_a_plot_needs_a_plain_name() -> None:
    with pytest.raises(ValueError, match=r"\[plot\] name must match"):
        plot('a" onload="x', figure(), "label")


def test_a_page_in_chromium(made: Pages, tmp_path: Path) -> None:
    """The plot is drawn, nothing complains, the text in the data stays text."""
    path, picture = tmp_path / "page.html", tmp_path / "page.png"
    html = made.render("t.html.j2", title="One <page>", lang="fr", figure=plot("bars", figure(), "two bars", "fr"))
    save(path, html)
    assert unlinked_numbers(html) == []
    seen = look(path, picture, 800, 600)
    assert seen.console == ()
    assert 'lang="fr"' in seen.document
    assert "One &lt;page&gt;" in seen.document
    assert 'class="main-svg"' in seen.document
    assert picture.read_bytes()[:4] == b"\x89PNG"


def test_the_browser_reports_what_a_page_wants(tmp_path: Path) -> None:
    """The policy in the base template is in force, and Chromium's complaint comes back."""
    (tmp_path / "t.html.j2").write_text(
        '{% extends "base.html.j2" %}{% block content %}<img src="http://a.example/x.png">{% endblock %}'
    )
    page = tmp_path / "page.html"
    page.write_text(Pages(tmp_path).render("t.html.j2", title="t"))
    seen = look(page, tmp_path / "page.png", 400, 300)
    assert any("Content Security Policy" in line for line in seen.console)


def test_a_missing_browser_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(FileNotFoundError, match="apt-get install chromium"):
        browser.find_chromium()
