"""Whether a decision still stands: each re-open trigger against what is known now."""

from __future__ import annotations

from datetime import date
from importlib import metadata
from typing import Any

from torchport.migrate.evaluate.errors import EvalError
from torchport.migrate.evaluate.plan import PriceFile


def recheck(
    decision: dict[str, Any],
    today: date,
    prices: PriceFile | None = None,
    volume: float | None = None,
    score: float | None = None,
    releases: dict[str, str] | None = None,
    regions: list[str] | None = None,
) -> list[dict[str, Any]]:
    """A row a trigger: name, fired (None where nothing new is known), and why."""
    basis, triggers = decision["basis"], decision["triggers"]
    rows = [_row("expiry", today > date.fromisoformat(decision["expires"]), f"valid until {decision['expires']}")]
    now = {p.id: p.per_device_hour for p in prices.price} if prices else {}
    if prices and (missing := sorted(set(basis["prices"]) - set(now))):
        raise EvalError(
            "eval recheck", "be given a price for every price of the decision", f"none for {', '.join(missing)}"
        )
    for name, old in basis["prices"].items():
        change = None if name not in now else now[name] / old - 1
        fired = None if change is None else abs(change) >= triggers["price_change"]
        rows.append(
            _row(
                f"price {name}",
                fired,
                "no new price given" if change is None else f"{old:g} to {now[name]:g} ({change:+.1%})",
            )
        )
    factor = None if volume is None else max(volume / basis["volume"], basis["volume"] / volume)
    rows.append(
        _row("volume", None if factor is None else factor >= triggers["volume_factor"], _text(volume, basis["volume"]))
    )
    known = score is not None and basis["mean_score"] is not None
    fired = basis["mean_score"] - score >= triggers["quality_drop"] if known else None
    rows.append(_row("quality", fired, _text(score, basis["mean_score"])))
    for package in triggers["releases"]:
        then = basis["software"].get(package)
        latest = (releases or {}).get(package) or _installed(package)
        newer = None if not (then and latest) else _feature(latest) > _feature(then)
        rows.append(_row(f"release {package}", newer, f"measured with {then or 'unknown'}, now {latest or 'unknown'}"))
    for region in triggers["regions"]:
        fired = None if regions is None else region in regions
        rows.append(
            _row(
                f"region {region}",
                fired,
                "no list of regions given" if regions is None else f"offered in {', '.join(regions)}",
            )
        )
    return rows


def _row(name: str, fired: bool | None, why: str) -> dict[str, Any]:
    return {"trigger": name, "fired": fired, "why": why}


def _text(new: float | None, old: float | None) -> str:
    return "no new figure given" if new is None else f"{old} to {new:g}"


def _installed(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _feature(version: str) -> tuple[int, ...]:
    """x.y of x.y.z+local."""
    numbers = []
    for part in version.split("+")[0].split(".")[:2]:
        digits = "".join(c for c in part if c.isdigit())
        if not digits:
            raise EvalError("eval recheck", "be given versions of the form x.y", version)
        numbers.append(int(digits))
    return tuple(numbers)
