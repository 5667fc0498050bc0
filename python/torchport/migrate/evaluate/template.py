"""Writes plan.toml and prices.toml with a comment at every field. The comments are the models' own descriptions."""

from __future__ import annotations

import tomllib
from datetime import date
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from torchport.migrate.evaluate.durable import write_atomic
from torchport.migrate.evaluate.errors import EvalError, need
from torchport.migrate.evaluate.folder import PLAN
from torchport.migrate.evaluate.plan import Plan, PriceFile, Range

if TYPE_CHECKING:
    from tomlkit import TOMLDocument
    from tomlkit.items import Table

HEAD = {
    "Plan": "The plan of an evaluation. Fill in what stands as REPLACE, then: torchport eval seal. Sealed before anything is measured.",
    "PriceFile": "Prices, each with the day it was seen and its source; without them nothing is computed.",
}


def init(folder: Path) -> list[Path]:
    """Writes the two files into a folder that has neither; returns them."""
    files = {PLAN: (Plan, "example.toml"), "prices.toml": (PriceFile, "example_prices.toml")}
    for name in files:
        if (folder / name).exists():
            raise EvalError("eval init", f"be given a folder without {name}", folder / name, "choose another folder")
    for name, (model, example) in files.items():
        raw = tomllib.loads(resources.files(__package__).joinpath(example).read_text(encoding="utf-8"))
        write_atomic(folder / name, render(model.model_validate(raw)))
    return [folder / name for name in files]


def render(model: BaseModel) -> str:
    """TOML of a model, a comment before every field; fields without a value stand as comments."""
    toml = need("tomlkit", "tomlkit")
    document = toml.document()
    document.add(toml.comment(HEAD[type(model).__name__]))
    _fill(document, model, explain=True)
    return toml.dumps(document)


def _fill(table: TOMLDocument | Table, model: BaseModel, explain: bool) -> None:
    toml = need("tomlkit", "tomlkit")
    fields = type(model).model_fields
    plain = [n for n in fields if not _is_table(getattr(model, n))]
    for name in [*plain, *(n for n in fields if n not in plain)]:  # TOML: plain keys stand before sub-tables
        value, text = getattr(model, name), fields[name].description or ""
        if explain and text:
            if name not in plain:
                table.add(toml.nl())
            table.add(toml.comment(text))
        if value is None:
            if explain:
                table.add(toml.comment(f"{name} = (not set)"))
        elif name in plain:
            table.add(name, _plain(value))
        elif isinstance(value, list):
            rows = toml.aot()
            for number, row in enumerate(value):
                item = toml.table()
                _fill(item, row, explain and number == 0)
                rows.append(item)
            table.add(name, rows)
        else:
            table.add(name, _table(value, explain))


def _table(value: BaseModel | dict[str, Any], explain: bool) -> Table:
    toml = need("tomlkit", "tomlkit")
    table = toml.table()
    if isinstance(value, BaseModel):
        _fill(table, value, explain)
        return table
    for number, (name, part) in enumerate(value.items()):
        table.add(name, _table(part, explain and number == 0) if isinstance(part, BaseModel) else part)
    return table


def _is_table(value: Any) -> bool:
    if isinstance(value, Range):
        return False
    if isinstance(value, list):
        return bool(value) and isinstance(value[0], BaseModel)
    return isinstance(value, BaseModel | dict)


def _plain(value: Any) -> Any:
    if isinstance(value, Range):
        return (
            value.mode
            if value.low == value.high
            else _inline({"low": value.low, "mode": value.mode, "high": value.high})
        )
    if isinstance(value, date | bool | int | float):
        return value
    return list(value) if isinstance(value, list | tuple) else str(value)


def _inline(values: dict[str, float]) -> Any:
    toml = need("tomlkit", "tomlkit")
    table = toml.inline_table()
    table.update(values)
    return table
