"""Reading a price file, and refusing what would decide wrongly: undated, stale, impossible, mixed-up rows."""

from __future__ import annotations

import re
import tomllib
from datetime import date
from pathlib import Path

from torchport.migrate.evaluate.errors import EvalError
from torchport.migrate.evaluate.parse import validated
from torchport.migrate.evaluate.plan import Price, PriceFile

# Catalogues write these where there is no price (SkyPilot's catalogue v8: 700.0); amounts of this kind are no prices.
SENTINELS = (700.0, 999.0, 9999.0, 99999.0)
# Widest span seen for accelerators on list and spot markets, 2024-2026, is 0.15 (Trainium1 spot) to 18 USD a chip-hour
# (B300 on demand); a plain CPU host starts near 0.01. Ten times either way is a unit error, not a price.
LOWEST, HIGHEST = 0.001, 180.0
CORES_PER_CHIP = {"v2": 2, "v3": 2, "v4": 2, "v5p": 2}  # cloud.google.com/tpu/docs: these names count TensorCores


def load_prices(path: Path) -> PriceFile:
    """Parses a price file; an undated row is refused by name."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise EvalError(str(path), "exist", "no such file", "torchport eval init writes an example") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise EvalError(str(path), "be TOML", error) from error
    for number, row in enumerate(raw.get("price", []), 1):
        if isinstance(row, dict) and not row.get("seen"):
            raise EvalError(f"{path.name} price {row.get('id', number)}", "give seen, the day of the source", "no date")
    return validated(PriceFile, raw, path.name)


def check_prices(prices: PriceFile, currency: str, max_age_days: int, today: date) -> None:
    """Raises EvalError that names every row that may not be used."""
    findings = [] if prices.currency == currency else [f"currency is {prices.currency}, the plan counts in {currency}"]
    ids = [row.id for row in prices.price]
    findings += [f"{name}: listed twice" for name in sorted({i for i in ids if ids.count(i) > 1})]
    for row in prices.price:
        findings += [f"{row.id}: {problem}" for problem in _problems(row, prices, max_age_days, today)]
    if findings:
        raise EvalError(
            "prices",
            f"be dated within {max_age_days} days, sourced and plausible",
            "; ".join(findings),
            "look them up again",
        )


def _problems(row: Price, prices: PriceFile, max_age_days: int, today: date) -> list[str]:
    found = []
    age = (today - row.seen).days
    if age > max_age_days:
        found.append(f"stale, seen {row.seen}, {age} days ago")
    if age < 0:
        found.append(f"seen {row.seen}, which is in the future")
    if row.source.startswith("REPLACE"):
        found.append("has no source")
    if row.purchase != "owned" and not LOWEST <= row.per_device_hour <= HIGHEST:
        found.append(f"{row.per_device_hour:g} a device-hour is no price ({LOWEST:g} to {HIGHEST:g} is plausible)")
    if row.amount in SENTINELS:
        found.append(f"{row.amount:g} is a catalogue's mark for: no price")
    if row.unit == "device-hour" and row.devices_per_unit != 1:
        found.append(f"a device-hour holds 1 device, not {row.devices_per_unit}")
    if (
        (match := re.fullmatch(r"(v\d+[a-z]*)-(\d+)", row.sku))
        and match[1] in CORES_PER_CHIP
        and row.unit == "instance-hour"
    ):
        chips = int(match[2]) // CORES_PER_CHIP[match[1]]
        if row.devices_per_unit != chips:
            found.append(f"{row.sku} counts cores: it is {chips} chips, not {row.devices_per_unit}")
    if row.purchase == "spot":
        same = [p for p in prices.price if (p.sku, p.region, p.purchase) == (row.sku, row.region, "on_demand")]
        found += [
            f"spot {row.per_device_hour:g} is above on-demand {p.per_device_hour:g} ({p.id})"
            for p in same
            if row.per_device_hour > p.per_device_hour
        ]
    return found


def find_price(prices: PriceFile, name: str, where: str) -> Price:
    """The row with this id."""
    for row in prices.price:
        if row.id == name:
            return row
    raise EvalError(where, f"be one of {', '.join(p.id for p in prices.price)}", name)
