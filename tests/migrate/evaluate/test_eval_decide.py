"""The rules: gates before scores, three outcomes, refusal without evidence, the same decision from the folder alone."""

from __future__ import annotations

import json
import shutil
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from toy_evaluation import TODAY, answer_all, day, edit, made, plan_data, price, record_all, stage, write_folder

from torchport.migrate.evaluate import EvalError, load_folder, writer
from torchport.migrate.evaluate.decide import decide
from torchport.migrate.evaluate.focus import rows
from torchport.migrate.evaluate.plan import PriceFile
from torchport.migrate.evaluate.recheck import recheck


def sealed_with(path: Path, prices: list[dict[str, Any]] | None = None, **changes: Any) -> Path:
    folder = write_folder(path / "evaluation", plan_data(**changes), prices)
    writer.seal(folder, "owner", TODAY)
    return folder


def decided(folder: Path, today: date = TODAY) -> dict[str, Any]:
    with writer.opened(folder) as evaluation:
        return decide(evaluation, today)[0]


def test_move(sealed: Path) -> None:
    record_all(sealed, port_ms=100)
    answer_all(sealed)
    writer.add_hours(sealed, "port", 6, "port", "engineer")
    found = decided(sealed)
    assert (found["outcome"], found["stage"]) == ("move", "port")
    port = found["stages"]["port"]
    assert port["ratio"]["low"] < 1 < port["ratio"]["high"]
    assert port["hours"] == 6
    assert [g["passed"] for g in port["gates"]] == [True, True, True]
    assert found["expires"] == day(90).isoformat()


def test_a_failed_gate_is_not_outweighed(sealed: Path) -> None:
    """Everything else as good as it gets: ten times as fast, a fifth of the price, full scores. The region says no."""
    record_all(sealed, port_ms=10)
    answer_all(sealed, region=0.0)
    found = decided(sealed)
    assert found["outcome"] == "not_worthwhile"
    assert "gate region failed" in found["because"]
    assert found["stages"]["port"]["score"] > 0.9
    assert found["stages"]["port"]["p_net_positive"] > 0.85


def test_quality_gate(sealed: Path) -> None:
    record_all(sealed, port_ms=10, wrong=6)
    answer_all(sealed)
    found = decided(sealed)
    assert found["outcome"] == "not_worthwhile"
    assert "gate quality failed" in found["because"]
    assert found["stages"]["port"]["quality"]["flips_worse"] == 6


def test_one_bad_start_is_not_enough_to_fail_a_measured_gate(sealed: Path) -> None:
    answer_all(sealed)
    with writer.opened(sealed) as evaluation:
        writer.record(evaluation, made("baseline", 0, 100.0))
        writer.record(evaluation, made("port", 1, 100.0, wrong=50))
    with pytest.raises(EvalError, match="port: 1 counted starts of 5"):
        decided(sealed)


def test_a_failed_gate_needs_no_measurement(sealed: Path) -> None:
    answer_all(sealed, region=0.0)
    found = decided(sealed)
    assert found["outcome"] == "not_worthwhile"
    assert found["cost"]["whole"] is None
    assert "No value was computed" in (sealed / "decisions" / "0001.md").read_text()


def test_keep_two_when_the_libraries_bar_a_whole_move(sealed: Path) -> None:
    record_all(sealed, port_ms=10)
    answer_all(sealed, libraries=0.0)
    found = decided(sealed)
    # Nothing to gain from a second platform: 730 h of the old one are kept running for the other half.
    assert found["outcome"] == "not_worthwhile"
    assert found["stages"]["port"]["p_net_positive_of_part"] < 0.5


def test_keep_two_when_a_part_is_worth_it(tmp_path: Path) -> None:
    folder = sealed_with(tmp_path, workload__results_per_month=1e9)  # many devices, so half of them can go
    record_all(folder, port_ms=10)
    answer_all(folder, libraries=0.0)
    found = decided(folder)
    assert found["outcome"] == "keep_two"
    assert found["stages"]["port"]["p_net_positive_of_part"] >= 0.8
    assert "Keep two platforms" in (folder / "decisions" / "0001.md").read_text()


def test_not_worthwhile_when_the_price_is_wrong(tmp_path: Path) -> None:
    folder = sealed_with(tmp_path, [price("old", 10.0), price("new", 20.0)])
    record_all(folder)
    answer_all(folder)
    found = decided(folder)
    assert found["outcome"] == "not_worthwhile"
    assert "P(net > 0) = 0.000" in found["because"]


def test_missing_evidence_is_named(sealed: Path) -> None:
    with pytest.raises(EvalError, match=r"gate region has no value.*port: 0 counted starts of 5") as caught:
        decided(sealed)
    assert "score debugging has no value" in str(caught.value)
    record_all(sealed)
    answer_all(sealed)
    assert decided(sealed)["outcome"] == "move"


def test_starts_that_do_not_alternate_are_not_enough(sealed: Path) -> None:
    with writer.opened(sealed) as evaluation:
        for n, name in enumerate(["baseline"] * 5 + ["port"] * 5):
            writer.record(evaluation, made(name, n, 100.0))
    answer_all(sealed)
    with pytest.raises(EvalError, match="5 starts of one stage in a row"):
        decided(sealed)


@pytest.mark.parametrize(
    ("who", "words"),
    [
        ({"emulated": True}, "ran on an emulated device"),
        ({"region": "elsewhere"}, "ran in elsewhere, outside here"),
        ({"region": "unknown"}, "nobody said in which region it ran"),
        ({"device": "another"}, "ran on another, the plan expects toy"),
    ],
)
def test_results_outside_their_conditions_are_kept_and_not_used(sealed: Path, who: dict[str, Any], words: str) -> None:
    record_all(sealed)
    answer_all(sealed)
    with writer.opened(sealed) as evaluation:  # ten times as fast, and not what was agreed on
        writer.record(evaluation, made("port", 20, 10.0, session="t", **who))
    found = decided(sealed)
    assert any(words in line for line in found["not_shown"])
    assert found["stages"]["port"]["figures"]["starts"] == 5
    assert len(found["stages"]["port"]["figures"]["starts_not_counted"]) == 1
    assert found["stages"]["port"]["ratio"]["estimate"] == pytest.approx(1, abs=0.05)


def test_results_on_other_data_do_not_count(sealed: Path) -> None:
    record_all(sealed)
    answer_all(sealed)
    with writer.opened(sealed) as evaluation:
        writer.record(evaluation, made("port", 20, 10.0, session="t", data_sha256={"requests.jsonl": "0" * 64}))
    found = decided(sealed)
    words = "used another requests.jsonl than the one that is sealed"
    assert f"port: 1 of 6 starts {words}; they are kept and not generalised." in found["not_shown"]
    assert found["stages"]["port"]["figures"]["starts"] == 5


def test_nothing_is_inferred_about_a_stage_that_was_not_run(tmp_path: Path) -> None:
    stages = {"baseline": stage(), "port": stage(), "optimised": stage()}
    prices = [price("old", 10.0), price("new", 20.0)]
    folder = sealed_with(tmp_path, prices, stages=stages)
    record_all(folder)
    answer_all(folder)
    with pytest.raises(EvalError, match="optimised: 0 counted starts of 5"):
        decided(folder)  # the port alone says no; the optimised deployment may not be guessed from it


def test_a_port_that_is_good_enough_does_not_wait_for_the_optimised_stage(tmp_path: Path) -> None:
    folder = sealed_with(tmp_path, stages={"baseline": stage(), "port": stage(), "optimised": stage()})
    record_all(folder)
    answer_all(folder)
    found = decided(folder)
    assert (found["outcome"], found["stage"]) == ("move", "port")
    assert "optimised: was not measured, and nothing is inferred about it from another stage." in found["not_shown"]


def test_ledgers_of_the_stages_are_separate_and_add_up(tmp_path: Path) -> None:
    stages = {"baseline": stage(), "port": stage(), "optimised": stage()}
    folder = sealed_with(tmp_path, stages=stages)
    record_all(folder, stages=tuple(stages))
    answer_all(folder)
    for name, hours in (("baseline", 1), ("port", 6), ("optimised", 10)):
        writer.add_hours(folder, name, hours, "work", "engineer")
        writer.add_change(folder, name, "a change", rule="", effect="slow")
    found = decided(folder)["stages"]
    assert (found["port"]["hours"], found["optimised"]["hours"]) == (6, 16)  # the optimised one stands on the port
    assert (found["port"]["changes"], found["optimised"]["changes"]) == (1, 2)


def test_the_folder_alone_reproduces_the_decision(sealed: Path, tmp_path: Path) -> None:
    record_all(sealed)
    answer_all(sealed)
    first = decided(sealed)
    copy = tmp_path / "copy"
    shutil.copytree(sealed, copy)
    shutil.rmtree(sealed)
    with writer.opened(copy) as evaluation:
        second, entry, reproduced = decide(evaluation, day(60))  # later, and still the day of the decision counts
    assert reproduced
    assert second == first
    assert json.loads((copy / entry.data["path"]).read_bytes()) == first
    assert [e.kind for e in load_folder(copy).entries].count("decision") == 1


def test_new_evidence_makes_a_new_decision_that_supersedes(sealed: Path) -> None:
    record_all(sealed)
    answer_all(sealed)
    assert decided(sealed)["outcome"] == "move"
    writer.add_answer(sealed, "region", 0.0, "contract ended", "owner")
    assert decided(sealed)["outcome"] == "not_worthwhile"
    assert "supersedes: decisions/0001.md" in (sealed / "decisions" / "0002.md").read_text()


def test_stale_prices_refuse_a_new_decision(sealed: Path) -> None:
    record_all(sealed)
    answer_all(sealed)
    with pytest.raises(EvalError, match="stale"):
        decided(sealed, day(120))


def test_the_record_says_what_it_must(sealed: Path) -> None:
    record_all(sealed)
    answer_all(sealed)
    edit(sealed / "plan.toml", "quality.margin", 0.06)
    writer.amend(sealed, "owner", "second thoughts", TODAY)
    decided(sealed)
    text = (sealed / "decisions" / "0001.md").read_text()
    sections = ("Context and Problem Statement", "Decision Drivers", "Considered Options", "Decision Outcome")
    for words in (
        *sections,
        "platform team",
        "redeploy",
        "model code",
        "Valid until",
        "price: ",
        "region: ",
        "What this does not show",
    ):
        assert words in text
    assert "after 10 measurements: second thoughts (plan.toml quality.margin: 0.05 to 0.06)" in text
    for entry in load_folder(sealed).evidence:
        if "measurement" in load_folder(sealed).evidence[entry].kind:
            assert entry in text


def test_recheck(sealed: Path) -> None:
    record_all(sealed)
    answer_all(sealed)
    found = decided(sealed)
    state = {r["trigger"]: r["fired"] for r in recheck(found, TODAY)}
    assert state["expiry"] is False
    assert state["price new"] is None
    cheaper = PriceFile.model_validate({"currency": "EUR", "price": [price("old", 7.9), price("new", 2.1)]})
    state = {
        r["trigger"]: r["fired"]
        for r in recheck(found, day(91), cheaper, 2.1e6, 0.985, {"torch": "2.14.0"}, ["here", "there"])
    }
    assert state == {
        "expiry": True, "price old": True, "price new": False, "volume": True, "quality": True, "release torch": True,
        "region there": True,
    }  # fmt: skip
    assert {r["trigger"]: r["fired"] for r in recheck(found, TODAY, releases={"torch": "2.13.4"})}[
        "release torch"
    ] is False


# Columns of feature level "Mandatory" in FOCUS 1.2 (github.com/FinOps-Open-Cost-and-Usage-Spec/FOCUS_Spec, tag v1.2).
MANDATORY = {
    "BilledCost", "BillingAccountId", "BillingAccountName", "BillingCurrency", "BillingPeriodEnd",
    "BillingPeriodStart", "ChargeCategory", "ChargeClass", "ChargeDescription", "ChargePeriodEnd",
    "ChargePeriodStart", "ContractedCost", "EffectiveCost", "InvoiceIssuerName", "ListCost",
    "PricingQuantity", "PricingUnit", "ProviderName", "PublisherName", "ServiceCategory",
    "ServiceName",
}  # fmt: skip


def test_focus_rows_add_up_to_the_month(sealed: Path) -> None:
    record_all(sealed)
    answer_all(sealed)
    found = decided(sealed)
    evaluation = load_folder(sealed)
    exported = rows(evaluation.plan, evaluation.prices, found, TODAY)
    assert MANDATORY <= set(exported[0])
    for side in ("baseline", "target"):
        total = sum(r["BilledCost"] for r in exported if f"the {side}:" in r["ChargeDescription"])
        assert total == pytest.approx(found["cost"]["whole"]["month_cost"][side], abs=0.02)
