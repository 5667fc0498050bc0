"""From TOML to models, with errors that name the field as the file writes it, and how two states of a file differ."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from torchport.migrate.evaluate.errors import EvalError
from torchport.migrate.evaluate.plan import Plan

M = TypeVar("M", bound=BaseModel)
PLACEHOLDER = "REPLACE"


def validated(model: type[M], raw: Any, where: str) -> M:
    """The model of raw data; every finding in one EvalError."""
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        found = [f"{'.'.join(map(str, e['loc'])) or 'the file'}: {e['msg']}" for e in error.errors()]
        raise EvalError(where, f"fit {model.__name__}", "; ".join(found)) from error


def load_plan(path: Path) -> Plan:
    """Parses plan.toml."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise EvalError(str(path), "exist", "no such file", f"torchport eval init {path.parent}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise EvalError(str(path), "be TOML", error) from error
    return validated(Plan, raw, path.name)


def flat(value: Any, path: str = "") -> dict[str, Any]:
    """Every leaf by its path: `criteria.2.at_most`."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if items is None or not value:
        return {path: value}
    return {k: v for key, part in items for k, v in flat(part, f"{path}.{key}" if path else str(key)).items()}


def difference(sealed: Any, present: Any) -> list[dict[str, Any]]:
    """Leaves that differ: field, sealed value, present value (None where absent)."""
    old, new = flat(sealed), flat(present)
    return [
        {"field": key, "sealed": old.get(key), "present": new.get(key)}
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key) or (key in old) != (key in new)
    ]


def placeholders(plan: Plan) -> list[str]:
    """Fields that still hold the example's text."""
    return [key for key, value in flat(plan.model_dump(mode="json")).items() if PLACEHOLDER in str(value)]
