"""The catalogue of CUDA-isms and the facts on chips in the knowledge base, and the glossary's references."""

from pathlib import Path

import pytest

from torchport.migrate.catalogue import catalogue
from torchport.migrate.errors import glossary
from torchport.migrate.kb import shipped


def test_every_rule_is_an_entry() -> None:
    entries = {entry.id: entry for entry in shipped.entries()}
    for rule in catalogue().rules:
        entry = entries[f"rule/{rule.id}"]
        assert rule.why in entry.claim
        assert rule.replacement in entry.claim
        assert entry.date == catalogue().sources[rule.source].date.isoformat()


def test_the_glossary_names_rules_that_exist() -> None:
    rules = {rule.id for rule in catalogue().rules}
    for known in glossary():
        assert set(known.rules) <= rules, known.id


TABLE = """
[source.page]
title = "A page"
url = "https://a.example/chip"
date = 2026-11-30
[chip.v9]
title = "TPU v9"
hbm = { value = 34_359_738_368, source = "page" }
bandwidth = { value = 1.638e12, source = "page" }
peak.bf16 = { value = 918e12, source = "page" }
link = { value = 90e9, axes = 2, source = "page" }
price = [{ usd = 2.70, region = "here", kind = "on-demand", source = "page" }]
"""


def test_facts_on_chips_come_from_the_table_of_targets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipped, "TARGETS", tmp_path / "targets.toml")
    assert list(shipped._chips()) == []
    shipped.TARGETS.write_text(TABLE)
    claims = {entry.id: (entry.claim, entry.source, entry.date) for entry in shipped._chips()}
    where = ("https://a.example/chip", "2026-11-30")
    assert claims == {
        "chip/v9/memory": ("TPU v9: memory 32 GiB per chip.", *where),
        "chip/v9/bandwidth": ("TPU v9: bandwidth 1.638 TB/s per chip.", *where),
        "chip/v9/peak-bf16": ("TPU v9: peak bf16 918 TFLOP/s per chip.", *where),
        "chip/v9/link": ("TPU v9: link 90 GB/s a link one way, 2 axes per chip.", *where),
        "chip/v9/price-0": ("TPU v9: 2.70 USD per chip and hour, on-demand, here.", *where),
    }
