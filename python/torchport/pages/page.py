"""Templates and plots of a self-contained page, and how it is written."""

from __future__ import annotations

import importlib
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchport.pages.offline import foreign

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

HERE = Path(__file__).parent
HEIGHT = 360  # pixels of a plot whose figure names no height
# Okabe and Ito's palette, which readers with any common colour blindness can tell apart
# (https://jfly.uni-koeln.de/color/, read 2026-11-30).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def needs(module: str, extra: str) -> Any:
    """The module, or an error that names the extra to install."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as err:
        raise ModuleNotFoundError(
            f"[{extra}] must have the package {module.split('.')[0]}, got: {err}. Try: pip install 'torchport[{extra}]'"
        ) from err


class Pages:
    """Renders templates found beside a package, on top of base.html.j2; an undefined name in a template is an error."""

    def __init__(self, folder: Path) -> None:
        jinja2 = needs("jinja2", "report")
        self._environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader([folder, HERE]),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )

    def add(self, **functions: Any) -> None:
        """Gives every template these functions."""
        self._environment.globals.update(functions)

    def render(self, template: str, *, title: str, lang: str = "en", **values: Any) -> str:
        """The page's text. Plotly is put in once, and only when one of the values is a plot."""
        script = ""
        if any("Plotly.newPlot" in part for part in _strings(values)):
            script = needs("plotly.offline", "report").get_plotlyjs()
        style = (HERE / "style.css").read_text(encoding="utf-8")
        text = self._environment.get_template(template).render(
            title=title, lang=lang, style=style, plotly=script, **values
        )
        return re.sub(r"\n\s*\n+", "\n", text) if not script else text


def _strings(value: Any) -> Sequence[str]:
    """Every string in nested dicts and lists."""
    if isinstance(value, str):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [text for part in parts for text in _strings(part)]


def pages(package: str) -> Pages:
    """The templates in a package's folder."""
    module = importlib.import_module(package)
    return Pages(Path(module.__file__ or "").parent)


def plot(name: str, figure: Figure, label: str, lang: str = "en") -> Any:
    """A Plotly figure as markup that needs no network.

    name: unique on the page, [a-z0-9-]. label: what a reader who does not see the plot is told.
    """
    if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
        raise ValueError(f"[plot] name must match [a-z][a-z0-9-]*, got {name!r}")
    markup = needs("markupsafe", "report")
    height = figure.layout.height or HEIGHT
    figure.update_layout(
        template="none",
        height=height,
        colorway=COLOURS,
        separators=", " if lang == "fr" else ".,",
        font={"family": "system-ui, sans-serif", "size": 13},
        margin={"l": 70, "r": 20, "t": 40, "b": 60},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
    )
    data = figure.to_json().replace("</", "<\\/")  # or a text in the data could end the script
    config = "{displaylogo: false, displayModeBar: false, responsive: true}"
    return markup.Markup(
        f'<div class="plot" id="{name}" style="height:{height:g}px" role="img" '
        f'aria-label="{markup.escape(label)}"></div>\n'
        f'<script>(f => Plotly.newPlot("{name}", f.data, f.layout, {config}))({data});</script>'
    )


def evidence_link(text: object, evidence: str) -> Any:
    """A value as a link to the entry of the page's evidence list that carries it (`id="ev-..."`)."""
    markup = needs("markupsafe", "report")
    return markup.Markup(f'<a class="value" href="#{anchor(evidence)}">{markup.escape(text)}</a>')


def anchor(evidence: str) -> str:
    """The id that an entry of the evidence list has on its page."""
    return "ev-" + re.sub(r"[^A-Za-z0-9._-]", "-", evidence)


def save(path: Path, html: str) -> None:
    """Writes the page whole or not at all; a page that would load something from elsewhere is refused."""
    if found := foreign(html):
        raise ValueError(f"[report] must load nothing from elsewhere, got {'; '.join(found[:5])}")
    write_whole(path, html)


def write_whole(path: Path, text: str) -> None:
    """Writes beside the path and renames, so that a kill leaves the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
