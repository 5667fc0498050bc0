"""The table of chips: names that are taken, figures and prices that are refused without source and date."""

from __future__ import annotations

import copy
import tomllib
from importlib import resources

import pytest
from pydantic import ValidationError

from torchport.check.targets import Table, TargetError, chips, source, table, target

RAW = tomllib.loads(resources.files("torchport.check").joinpath("targets.toml").read_text(encoding="utf-8"))


def test_every_chip_of_the_product_is_there() -> None:
    assert set(chips()) >= {"v4", "v5e", "v5p", "v6e", "7x", "a100", "h100", "h200", "b200", "mi300x", "trn2", "trn3"}


@pytest.mark.parametrize(
    ("name", "devices", "full"),
    [
        ("tpu:v6e", 4, "tpu:v6e:2x2"),
        ("tpu:v5e:16x16", 256, "tpu:v5e:16x16"),
        ("TPU:7x", 8, "tpu:7x:2x2x1"),
        ("cuda:h100", 1, "cuda:h100:1"),
        ("cuda:h100:8", 8, "cuda:h100:8"),
        ("trn:trn2:16", 16, "neuron:trn2:16"),
    ],
)
def test_names(name: str, devices: int, full: str) -> None:
    assert (target(name).num_devices, target(name).name) == (devices, full)


@pytest.mark.parametrize(
    "name", ["tpu", "tpu:h100", "v6e", "tpu:v6e:2", "tpu:v6e:0x2", "tpu:v6e:2x2:1", "cuda:h100:x", ""]
)
def test_names_that_are_refused(name: str) -> None:
    with pytest.raises(TargetError, match=r"\[--target\] must be "):
        target(name)


def test_every_price_has_a_date_and_an_address() -> None:
    prices = [price for chip in chips().values() for price in chip.price]
    assert len(prices) >= 10
    for price in prices:
        assert source(price.source).date.year >= 2024
        assert str(source(price.source).url).startswith("https://")


def test_an_undated_price_is_refused() -> None:
    raw = copy.deepcopy(RAW)
    del raw["source"][raw["chip"]["v6e"]["price"][0]["source"]]["date"]
    with pytest.raises(ValidationError, match=r"date\s+Field required"):
        Table.model_validate(raw)


def test_a_price_without_source_is_refused() -> None:
    raw = copy.deepcopy(RAW)
    raw["chip"]["v6e"]["price"].append({"usd": 1.0, "region": "somewhere", "kind": "on-demand", "source": "hearsay"})
    with pytest.raises(ValidationError, match="must name one of the sources of the table, got 'hearsay'"):
        Table.model_validate(raw)


def test_a_chip_is_as_large_as_its_devices_together() -> None:
    for name, chip in table().chip.items():
        wanted = target(f"{chip.platform}:{name}")
        assert wanted.device_hbm * chip.devices_per_chip == chip.hbm.value
        assert 8e9 < wanted.device_hbm < 3e11 and 5e11 < chip.bandwidth.value < 1e13
