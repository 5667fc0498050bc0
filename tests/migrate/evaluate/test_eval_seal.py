"""Sealing, amending, tampering, kills: what was fixed stays fixed, what was measured is not lost."""

from __future__ import annotations

import json
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from toy_evaluation import TODAY, day, edit, made, plan_data, price, record_all, write_folder

from torchport.migrate.evaluate import EvalError, TamperError, load_folder, writer
from torchport.migrate.evaluate.chain import Chain, entry_hash
from torchport.migrate.evaluate.durable import canonical
from torchport.migrate.evaluate.run import run
from torchport.migrate.evaluate.template import init

RECORDER = Path(__file__).parent / "recorder.py"


def quiet(*_: object) -> None:
    """No progress."""


def test_measuring_before_sealing_is_refused(folder: Path) -> None:
    with pytest.raises(EvalError, match="sealed plan before anything is measured"):
        run(folder, ["baseline"], 1, quiet)
    with pytest.raises(EvalError, match="sealed plan"):
        writer.add_hours(folder, "port", 1, "x", "engineer")
    assert not (folder / "results").exists()


def test_the_example_cannot_be_sealed_as_it_is(tmp_path: Path) -> None:
    init(tmp_path / "new")
    with pytest.raises(EvalError, match=r"placeholders.*evaluation\.title"):
        writer.seal(tmp_path / "new", "owner", TODAY)
    with pytest.raises(EvalError, match="without plan.toml"):
        init(tmp_path / "new")


def test_stale_prices_cannot_be_sealed(folder: Path) -> None:
    with pytest.raises(EvalError, match="stale"):
        writer.seal(folder, "owner", day(200))


def test_sealing_twice_is_refused(sealed: Path) -> None:
    with pytest.raises(EvalError, match="not sealed yet"):
        writer.seal(sealed, "owner", TODAY)
    assert load_folder(sealed).findings == []


def test_a_price_of_another_region_cannot_be_sealed(tmp_path: Path) -> None:
    prices = [price("old", 10.0), price("new", 2.0, region="us-central1")]
    folder = write_folder(tmp_path / "a", plan_data(), prices)
    with pytest.raises(EvalError, match=r"price new\] must be a price of here .*, got us-central1"):
        writer.seal(folder, "owner", TODAY)


def test_a_plan_without_a_quality_gate_cannot_be_sealed(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "a", plan_data(criteria__2__measure="answer"))
    with pytest.raises(EvalError, match="hold a gate on quality_non_inferior"):
        writer.seal(folder, "owner", TODAY)


def test_unknown_measure_and_missing_family(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "a", plan_data(criteria__2__measure="speed"))
    with pytest.raises(EvalError, match="criteria quality.*capacity_ratio_low.*got speed"):
        writer.seal(folder, "owner", TODAY)
    data = plan_data()
    data["criteria"] = [c for c in data["criteria"] if c["family"] != "supervision"]
    with pytest.raises(ValueError, match="cover every family, got none of supervision"):
        write_folder(tmp_path / "b", data)


@pytest.mark.parametrize(
    ("file", "key", "value", "words"),
    [
        ("plan.toml", "quality.margin", 0.2, r"plan\.toml: quality\.margin is 0\.2, sealed as 0\.05"),
        (
            "plan.toml",
            "criteria.0.at_least",
            0,
            r"plan\.toml: criteria\.0\.at_least \(region\) is 0\.0, sealed as 1\.0",
        ),
        ("prices.toml", "price.1.amount", 0.5, r"prices\.toml: price\.1\.amount \(new\) is 0\.5, sealed as 2\.0"),
    ],
)
def test_an_edited_plan_or_price_is_named(sealed: Path, file: str, key: str, value: float, words: str) -> None:
    edit(sealed / file, key, value)
    (found,) = load_folder(sealed).findings
    assert re.search(words, found)
    with pytest.raises(TamperError, match=words):
        writer.add_hours(sealed, "port", 1, "x", "engineer")
    with pytest.raises(TamperError, match=words):
        run(sealed, ["port"], 1, quiet)


def test_comments_are_not_changes(sealed: Path) -> None:
    path = sealed / "plan.toml"
    path.write_text("# a note\n" + path.read_text())
    assert load_folder(sealed).findings == []


def test_changed_workload_data_is_named(sealed: Path) -> None:
    (sealed / "requests.jsonl").write_text("{}\n")
    assert re.search(r"requests\.jsonl: changed after it was recorded \(seal E0001", load_folder(sealed).findings[0])


def test_a_changed_result_is_named(sealed: Path) -> None:
    with writer.opened(sealed) as evaluation:
        entry = writer.record(evaluation, made("port", 0, 100.0))
    path = sealed / entry.data["path"]
    raw = json.loads(path.read_bytes())
    raw["body"]["loads"][0]["latency_ms"][0] /= 2
    path.write_bytes(canonical(raw))
    assert load_folder(sealed).findings == [
        f"{entry.data['path']}: changed after it was recorded (measurement {entry.id})"
    ]
    path.unlink()
    assert load_folder(sealed).findings == [f"{entry.data['path']}: missing (measurement {entry.id})"]


def test_a_rewritten_seal_is_named(sealed: Path) -> None:
    path = sealed / "sealed" / "plan-0001.json"
    path.write_bytes(path.read_bytes().replace(b'"margin":0.05', b'"margin":0.50'))
    assert "sealed/plan-0001.json: changed after it was recorded" in load_folder(sealed).findings[0]
    with pytest.raises(TamperError, match="changed after it was sealed"):
        _ = load_folder(sealed).plan


def lines(folder: Path) -> list[bytes]:
    return (folder / "chain.jsonl").read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize("forged", [False, True])
def test_a_changed_entry_is_named(sealed: Path, forged: bool) -> None:
    writer.add_hours(sealed, "port", 40, "port", "engineer")
    writer.add_hours(sealed, "port", 2, "test", "engineer")
    rows = lines(sealed)
    entry = json.loads(rows[1])
    entry["data"]["hours"] = 4
    if forged:  # whoever also computes the entry's own hash is given away by the next one
        entry["hash"] = entry_hash(entry)
    (sealed / "chain.jsonl").write_bytes(b"".join([rows[0], canonical(entry) + b"\n", *rows[2:]]))
    words = "line 3: entry 3 does not follow" if forged else r"entry 2 \(hours\): its content was changed"
    assert re.search(words, load_folder(sealed).findings[0])


def test_removed_entries_are_noticed(sealed: Path) -> None:
    for hours in (1, 2, 3):
        writer.add_hours(sealed, "port", hours, "x", "engineer")
    rows = lines(sealed)
    (sealed / "chain.jsonl").write_bytes(b"".join(rows[:-2]))
    assert load_folder(sealed).findings == ["chain.jsonl: 2 of 4 entries were removed from its end"]
    (sealed / "chain.jsonl").write_bytes(b"".join([rows[0], *rows[2:]]))
    assert "line 2: entry 3 does not follow" in load_folder(sealed).findings[0]
    (sealed / "chain.jsonl").write_bytes(b"".join([rows[0], b"{}\n", *rows[2:]]))
    assert load_folder(sealed).findings[0] == "chain.jsonl line 2: not an entry of this log"


def test_an_amendment_is_shown_for_ever(sealed: Path) -> None:
    with pytest.raises(EvalError, match="find a change"):
        writer.amend(sealed, "owner", "nothing", TODAY)
    record_all(sealed)
    edit(sealed / "plan.toml", "quality.margin", 0.1)
    edit(sealed / "prices.toml", "price.1.amount", 1.5)
    with pytest.raises(EvalError, match="say why"):
        writer.amend(sealed, "owner", " ", TODAY)
    writer.amend(sealed, "owner", "new price list", TODAY)
    evaluation = load_folder(sealed)
    assert evaluation.findings == []
    (amendment,) = evaluation.amendments
    assert amendment.data["reason"] == "new price list"
    assert amendment.data["measurements_before"] == 10
    assert {(c["field"], c["sealed"], c["present"]) for c in amendment.data["changes"]} == {
        ("quality.margin", 0.05, 0.1),
        ("price.1.amount", 2.0, 1.5),
    }
    assert evaluation.plan.quality.margin == 0.1
    assert evaluation.seal is not None
    assert evaluation.seal.kind == "seal"


def test_a_second_writer_is_refused(sealed: Path) -> None:
    with writer.opened(sealed), pytest.raises(EvalError, match="only writer"):
        writer.add_hours(sealed, "port", 1, "x", "engineer")


def recorder(folder: Path, *args: object) -> subprocess.Popen:
    command = [sys.executable, str(RECORDER), str(folder), *map(str, args)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def survivors(folder: Path) -> set[int]:
    """Positions that the next command finds, after it has taken in what a kill left over."""
    with writer.opened(folder):
        pass
    evaluation = load_folder(folder)
    assert evaluation.findings == []
    assert evaluation.unrecorded == []
    return {r.measurement.position for r in evaluation.ledgers["port"].results}


def test_a_kill_at_every_step_loses_no_finished_measurement(sealed: Path, tmp_path: Path) -> None:
    """A measurement takes a known number of durable steps; the process is killed before each of them in turn."""
    recovered, died, step = 0, 0, 0
    while True:
        step += 1
        folder = tmp_path / f"killed-{step}"
        shutil.copytree(sealed, folder)
        with recorder(folder, 0, 1, step) as process:
            finished = {int(line) for line in process.stdout}
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL
        died += 1
        found = survivors(folder)
        assert finished <= found
        recovered += sum(r.recovered for r in load_folder(folder).ledgers["port"].results)
        with writer.opened(folder) as evaluation:  # and the folder goes on working
            writer.record(evaluation, made("port", 5, 100.0))
        assert survivors(folder) == found | {5}
    assert died >= 10  # attachment, result, entry and head, each with its writes, syncs and renames
    assert recovered >= 2  # the states between a result's rename and its entry were really met


def test_kills_at_any_moment(sealed: Path) -> None:
    """The same without knowing where: five kills after random times, on one folder."""
    rng, finished = random.Random(11), set()
    for attempt in range(5):
        with recorder(sealed, 1000 * attempt, 1000) as process:
            first = process.stdout.readline()
            time.sleep(rng.uniform(0, 0.05))
            process.kill()
            finished |= {int(n) for n in (first + process.stdout.read()).split("\n")[:-1]}
        assert finished <= survivors(sealed)
    assert finished


def test_a_torn_last_line_is_set_aside(sealed: Path) -> None:
    with (sealed / "chain.jsonl").open("ab") as file:
        file.write(b'{"seq":2,"ti')
    assert load_folder(sealed).findings == []
    writer.add_hours(sealed, "port", 1, "x", "engineer")
    assert [e.kind for e in Chain(sealed).read()] == ["seal", "hours"]
    assert (sealed / "chain.torn").read_bytes() == b'{"seq":2,"ti\n'


def test_an_unrecorded_result_is_taken_in_only_as_it_was_written(sealed: Path) -> None:
    with writer.opened(sealed) as evaluation:
        entry = writer.record(evaluation, made("port", 0, 100.0))
    rows = lines(sealed)  # as a kill between file and entry leaves it
    (sealed / "chain.jsonl").write_bytes(rows[0])
    (sealed / "chain.head").write_bytes(canonical({"seq": 1, "hash": json.loads(rows[0])["hash"]}))
    path = sealed / entry.data["path"]
    good = path.read_bytes()
    raw = json.loads(good)
    raw["body"]["loads"][0]["latency_ms"][0] /= 2
    path.write_bytes(canonical(raw))
    with pytest.raises(EvalError, match="altered or belongs elsewhere"):
        writer.add_hours(sealed, "port", 1, "x", "engineer")
    path.write_bytes(good)
    writer.add_hours(sealed, "port", 1, "x", "engineer")
    assert [r.recovered for r in load_folder(sealed).ledgers["port"].results] == [True]


def test_numbers_that_are_none_are_refused(sealed: Path, tmp_path: Path) -> None:
    with pytest.raises(EvalError, match="finite value"):
        writer.add_answer(sealed, "region", float("nan"), "ticket", "owner")
    with pytest.raises(EvalError, match="hours above 0"):
        writer.add_hours(sealed, "port", float("nan"), "x", "engineer")
    with pytest.raises(ValueError, match="finite number"):
        write_folder(tmp_path / "b", plan_data(criteria__0__at_least=float("nan")))


def test_a_foreign_result_is_refused(sealed: Path, tmp_path: Path) -> None:
    other = write_folder(tmp_path / "other", plan_data(workload__name="other"))
    writer.seal(other, "owner", TODAY)
    with writer.opened(other) as evaluation:
        entry = writer.record(evaluation, made("port", 0, 1.0))
    target = sealed / entry.data["path"]
    target.parent.mkdir(parents=True)
    shutil.copy(other / entry.data["path"], target)
    with pytest.raises(EvalError, match="altered or belongs elsewhere"):
        writer.add_hours(sealed, "port", 1, "x", "engineer")
