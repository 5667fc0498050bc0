"""The report's texts, numbers and dates in English or French."""

from __future__ import annotations

import datetime
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
LANGUAGES = ("en", "fr")
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
NARROW = "\u202f"  # the space that French puts before ; : % and between thousands


@cache
def _table() -> dict[str, dict[str, dict[str, str]]]:
    return tomllib.loads((HERE / "words.toml").read_text(encoding="utf-8"))


@cache
def _phrases() -> list[tuple[re.Pattern[str], str]]:
    rows = tomllib.loads((HERE / "phrases.toml").read_text(encoding="utf-8"))["phrase"]
    return [(re.compile(row["en"]), row["fr"]) for row in rows]


class Words:
    """One language. Raises ValueError for another than LANGUAGES, KeyError for a text that words.toml has not."""

    def __init__(self, lang: str) -> None:
        if lang not in LANGUAGES:
            raise ValueError(f"[report] lang must be one of {', '.join(LANGUAGES)}, got {lang!r}")
        self.lang = lang

    def __call__(self, key: str, **values: object) -> str:
        """A text by `section.name`."""
        section, _, name = key.partition(".")
        return _table()[section][name][self.lang].format(**values)

    def number(self, value: float | None) -> str:
        """Three significant digits or all digits before the point; a dash where there is no value."""
        if value is None:
            return "–"
        size = abs(value)
        if size >= 100 or float(value).is_integer():
            text = f"{value:,.0f}"
        elif size >= 1:
            text = f"{value:,.3g}"
        else:
            text = f"{value:.3g}"
        digits, _, exponent = text.partition("e")
        power = f" × 10{str(int(exponent)).translate(_RAISED)}" if exponent else ""
        return self._signs(digits) + power

    def rounded(self, value: float) -> str:
        """A measured figure: four significant digits."""
        return self.number(float(f"{value:.4g}"))

    def money(self, value: float) -> str:
        """Two digits after the point."""
        return self._signs(f"{value:,.2f}")

    def percent(self, value: float) -> str:
        """A share as a percentage."""
        text = self._signs(f"{100 * value:.3g}")
        return f"{text}{NARROW}%" if self.lang == "fr" else f"{text}%"

    def date(self, value: str) -> str:
        """An ISO date in words of the language's order."""
        day = datetime.date.fromisoformat(value)
        return day.strftime("%d/%m/%Y") if self.lang == "fr" else day.isoformat()

    def derived(self, sentence: str) -> tuple[str, bool]:
        """A sentence that the evaluator derived, in this language; False where only the English is known."""
        if self.lang == "en":
            return sentence, True
        whole = self._phrase(sentence)
        if whole is not None:
            return whole, True
        parts = [self._phrase(part) for part in sentence.split("; ")]
        if all(part is not None for part in parts):
            return " ; ".join(str(part) for part in parts), True
        return sentence, False

    def _phrase(self, sentence: str) -> str | None:
        for pattern, template in _phrases():
            if match := pattern.fullmatch(sentence):
                return self._fill(template, match)
        return None

    def _fill(self, template: str, found: re.Match[str]) -> str:
        text = re.sub(r"\\(\d)", lambda m: self._point(found[int(m[1])]), template)
        return re.sub(r"\{(\d)\}", lambda m: self._part(found[int(m[1])]), text)

    def _part(self, text: str) -> str:
        """A stage's name, or a part of a sentence, in this language; else as it is."""
        stages: dict[str, Any] = _table()["stage"]
        return stages[text][self.lang] if text in stages else self._phrase(text) or text

    def _point(self, text: str) -> str:
        """A bare number with the language's decimal sign."""
        return text.replace(".", ",") if re.fullmatch(r"-?\d+\.\d+", text) else text

    def _signs(self, text: str) -> str:
        if self.lang == "en":
            return text
        return text.replace(",", NARROW).replace(".", ",")
