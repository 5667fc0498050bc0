"""What a finished page would load from elsewhere, and which of its numbers lead to no evidence."""

from __future__ import annotations

import re
from html.parser import HTMLParser

# Attributes that make a browser fetch, by element (https://html.spec.whatwg.org/#attributes-3, read 2026-11-30).
# An <a href> is a link that waits for a click, so it is not among them.
_FETCHING = {"src", "srcset", "data", "poster", "background", "xlink:href", "manifest", "action", "formaction", "ping"}
_CSS = re.compile(r"url\(\s*['\"]?(?!data:|#)([^'\")]+)|@import\s+([^;]+)")
_LOCAL = re.compile(r"^(data:|#|about:blank$)")
_VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
_NUMBER = re.compile(r"\d")


class _Reader(HTMLParser):
    """Collects loads, anchors and text with its place."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.ids: set[str] = set()
        self.texts: list[tuple[str, str | None]] = []  # text, and the anchor that it leads to or ""
        self._open: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if "id" in given:
            self.ids.add(given["id"])
        for name, value in given.items():
            fetches = name in _FETCHING or (name == "href" and tag in ("link", "base", "image", "use"))
            if fetches and not _LOCAL.match(value.strip()):
                self.loads.append(f'<{tag} {name}="{value[:80]}">')
            if name == "style":
                self._style(value)
        if tag == "meta" and given.get("http-equiv", "").lower() == "refresh":
            self.loads.append(f'<meta refresh "{given.get("content", "")[:80]}">')
        if tag not in _VOID:
            free = "data-free" in given or tag in ("script", "style", "title")
            link = given.get("href", "") if tag == "a" else None
            self._open.append((tag, "free" if free else link))

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1][0] == "style":
            self._style(data)
        marks = [mark for _, mark in self._open if mark is not None]
        if "free" not in marks:
            self.texts.append((data, marks[-1] if marks else None))

    def _style(self, css: str) -> None:
        self.loads += [f"css {(a or b)[:80]}" for a, b in _CSS.findall(css)]


def _read(html: str) -> _Reader:
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return reader


def foreign(html: str) -> list[str]:
    """Everything the page would fetch: elements with a remote source, style sheets, imports. Empty for a good page."""
    return _read(html).loads


def unlinked_numbers(html: str) -> list[str]:
    """Texts with a digit that are not inside a link to an anchor of the page, or whose anchor is missing.

    Elements with the attribute `data-free` are left out: the evidence list itself, and words quoted from the user.
    """
    reader = _read(html)
    found = []
    for text, link in reader.texts:
        if _NUMBER.search(text) and not (link and link.startswith("#") and link[1:] in reader.ids):
            found.append(" ".join(text.split()))
    return found
