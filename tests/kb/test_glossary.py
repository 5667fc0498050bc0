"""Each entry of the error glossary is found by real message texts, and comes first."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from torchport.migrate import errors
from torchport.migrate.errors.answer import answers, as_code, codes
from torchport.migrate.kb import shipped

HERE = Path(__file__).parent
KNOWN = {known.id: known for known in errors.glossary()}
RECORDED = tomllib.loads((HERE / "messages.toml").read_text(encoding="utf-8"))
TEXTS = [
    (name, text)
    for family in RECORDED.values()
    for name, texts in family.items()
    for text in (texts if isinstance(texts, list) else [texts])
]


@pytest.fixture(scope="session")
def provoked() -> dict[str, str]:
    """What torch itself says, from a process without a device backend."""
    done = subprocess.run(
        [sys.executable, HERE / "provoked.py"],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "CUDA_VISIBLE_DEVICES": ""},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(("name", "text"), TEXTS, ids=[f"{n}-{i}" for i, (n, _) in enumerate(TEXTS)])
def test_a_recorded_message_leads_to_its_entry(name: str, text: str) -> None:
    first = answers(text)[0]
    assert first.entry == f"error/{name}"
    assert first.cause and first.next and first.source.strip() and first.words in text


def test_torch_itself_leads_to_its_entries(provoked: dict[str, str]) -> None:
    got = {name: (found[0].entry if (found := answers(text)) else text) for name, text in provoked.items()}
    assert got == {name: f"error/{name}" for name in provoked}


def test_every_entry_has_a_real_message(provoked: dict[str, str]) -> None:
    recorded = {name for name, _ in TEXTS}
    assert recorded | set(provoked) == set(KNOWN)
    assert len(KNOWN) >= 60


def test_families_hold_their_own() -> None:
    for family, rows in RECORDED.items():
        assert {KNOWN[name].family for name in rows} == {family}


def test_every_entry_is_sourced() -> None:
    for known in KNOWN.values():
        assert re.match(r"https://|torch \d|torch_tpu \d", known.source), known.id
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", known.date), known.id


def test_an_answer_names_an_entry_that_exists(provoked: dict[str, str]) -> None:
    ids = {entry.id for entry in shipped.entries()}
    for text in [
        *(text for _, text in TEXTS),
        *provoked.values(),
        "IndexError: [cumsum] dim must be in [-2, 1] (TP0102)",
    ]:
        for answer in answers(text):
            assert {answer.entry, *answer.rules} <= ids


def test_no_entry_is_set_off_by_ordinary_text() -> None:
    for text in ("", "step 10 loss 2.31", "Traceback (most recent call last):", "epoch done in 3.2 s on cuda:0"):
        assert answers(text) == []


def test_the_end_of_a_long_log_counts() -> None:
    log = "step\n" * 100_000 + "AssertionError: Torch not compiled with CUDA enabled\n"
    assert answers(log)[0].entry == "error/torch-no-cuda"


def test_own_codes() -> None:
    assert as_code("103") == as_code("tp0103") == "TP0103"
    assert as_code("TP0103 more") is None
    first = answers("IndexError: [cumsum] dim must be in [-2, 1], got 5 (TP0102)")[0]
    assert (first.entry, first.cause) == ("code/TP0102", codes()["TP0102"]["cause"])
    assert answers("(TP9999)") == []
