"""Prices that would decide wrongly are refused, and the message names the row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from toy_evaluation import TODAY, day, price

from torchport.migrate.evaluate.errors import EvalError
from torchport.migrate.evaluate.plan import PriceFile
from torchport.migrate.evaluate.prices import check_prices, load_prices


def check(*rows: dict[str, Any], currency: str = "EUR") -> None:
    check_prices(PriceFile.model_validate({"currency": currency, "price": list(rows)}), "EUR", 90, TODAY)


def test_good_prices_pass() -> None:
    check(
        price("a", 2.97),
        price("b", 55.04, unit="instance-hour", devices_per_unit=8),
        price("v5p", 17.01, sku="v5p-8", unit="instance-hour", devices_per_unit=4),
        price("spot", 1.0, sku="sku-a", purchase="spot"),
        price("own", 0.0, purchase="owned"),
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seen": day(-91)}, "stale"),
        ({"seen": day(1)}, "in the future"),
        ({"source": "REPLACE: address"}, "has no source"),
        ({"amount": 700.0}, "mark for: no price"),
        ({"amount": 0.0}, "is no price"),
        ({"amount": -1.0}, "is no price"),
        ({"amount": 5000.0}, "is no price"),
        ({"devices_per_unit": 8}, "holds 1 device"),
        ({"sku": "v5p-8", "unit": "instance-hour", "devices_per_unit": 8}, "is 4 chips, not 8"),
    ],
)
def test_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(EvalError, match=words) as caught:
        check(price("wrong", 2.0) | changes)
    assert "wrong" in str(caught.value)


def test_spot_above_on_demand_is_a_mixed_up_row() -> None:
    with pytest.raises(EvalError, match=r"spot 3 is above on-demand 2 \(a\)"):
        check(price("a", 2.0), price("b", 3.0, sku="sku-a", purchase="spot"))


def test_other_currency_and_double_ids() -> None:
    with pytest.raises(EvalError, match="currency is USD"):
        check(price("a", 2.0), currency="USD")
    with pytest.raises(EvalError, match="listed twice"):
        check(price("a", 2.0), price("a", 3.0))


def test_undated_row_is_named(tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text('currency = "EUR"\n[[price]]\nid = "undated"\namount = 2.0\n')
    with pytest.raises(EvalError, match="price undated.*no date"):
        load_prices(path)
