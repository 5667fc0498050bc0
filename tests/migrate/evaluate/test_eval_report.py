"""The report: both languages, the decision first, every number linked, nothing loaded from elsewhere, as Chromium shows it."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from html import unescape
from pathlib import Path
from types import ModuleType

import pytest
from toy_evaluation import TODAY, answer_all, edit, made, plan_data, record_all, stage, write_folder
from typer.testing import CliRunner

from torchport.migrate.evaluate import analysis, load_folder, shown, writer
from torchport.migrate.evaluate.decide import decide
from torchport.migrate.evaluate.measurement import Steadiness
from torchport.migrate.report import words
from torchport.migrate.report.build import build
from torchport.migrate.report.words import LANGUAGES, Words
from torchport.pages import foreign, look, save, unlinked_numbers


@pytest.fixture
def decided(tmp_path: Path) -> Path:
    """Three stages, a change and hours in the ledgers, an amendment, a decision."""
    folder = write_folder(tmp_path / "evaluation", plan_data(stages__optimised=stage()))
    writer.seal(folder, "owner", TODAY)
    writer.add_change(folder, "port", "x.cuda() became x.to(device) in 3 files")
    writer.add_hours(folder, "port", 6.5, "port and tests", "engineer")
    record_all(folder, port_ms=70.0, wrong=1, stages=("baseline", "port", "optimised"))
    answer_all(folder)
    edit(folder / "plan.toml", "rules.min_score", 0.25)
    writer.amend(folder, "owner", "agreed with finance", TODAY)
    judge(folder)
    return folder


def judge(folder: Path) -> dict:
    with writer.opened(folder) as evaluation:
        return decide(evaluation, TODAY)[0]


def body(html: str) -> str:
    """The page without scripts and styles."""
    return unescape(re.sub(r"<(script|style)>.*?</\1>", "", html, flags=re.DOTALL))


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_decided_page(decided: Path, lang: str) -> None:
    html = build(decided, lang)
    assert foreign(html) == []
    assert unlinked_numbers(html) == []
    text, say = body(html), Words(lang)
    assert f'<html lang="{lang}">' in text
    verdict = text.index(say("outcome.move"))
    assert verdict < min(
        text.index(say(f"title.{part}")) for part in ("figures", "criteria", "value", "not_shown", "evidence")
    )
    assert "agreed with finance" in text
    assert "x.cuda() became x.to(device)" in text
    assert say("text.original") not in text


def test_french_is_french(decided: Path) -> None:
    text = body(build(decided, "fr"))
    visible = re.sub(r"<[^>]*data-free.*?</(?:td|span|h1|p|ul|table)>", "", text, flags=re.DOTALL)
    for english in ("Because", "Baseline", "latencies", "starts", "at least", "passed", "evidence", "was not measured"):
        assert not re.search(rf"\b{english}\b", re.sub(r"<[^>]+>", " ", visible)), english
    assert "tous les critères éliminatoires sont satisfaits" in text
    assert re.search(r"\d\u202f\d{3}", text)  # thousands
    assert re.search(r"\d,\d", text)  # decimals


def test_a_number_leads_to_the_starts_that_carry_it(decided: Path) -> None:
    text = build(decided, "en")
    decision = load_folder(decided).decision
    assert decision
    figures = decision["stages"]["port"]["figures"]
    shown = Words("en").rounded(figures["usable_per_device_hour"]["estimate"])
    anchor = next(name for name, cell in re.findall(r'href="#([^"]+)">([^<]+)</a>', text) if cell.startswith(shown))
    row = re.search(rf'<tr id="{anchor}">(.*?)</tr>', text, re.DOTALL)
    assert row
    assert set(re.findall(r"E\d{4}-[0-9a-f]{8}", row[1])) == set(figures["evidence"])
    for name in figures["evidence"]:
        assert f'<tr id="ev-{name}">' in text


def test_every_link_on_the_page_has_its_target(decided: Path) -> None:
    text = build(decided, "fr")
    ids = set(re.findall(r'id="([^"]+)"', text))
    assert set(re.findall(r'href="#([^"]+)"', text)) <= ids


@pytest.mark.parametrize("lang", LANGUAGES)
def test_pages_before_a_decision(folder: Path, lang: str) -> None:
    say = Words(lang)
    unsealed = build(folder, lang)
    assert say("text.not_sealed") in body(unsealed)
    writer.seal(folder, "owner", TODAY)
    record_all(folder)
    measured = build(folder, lang)
    for html in (unsealed, measured):
        assert say("outcome.none") in body(html)
        assert unlinked_numbers(html) == []
        assert foreign(html) == []
    assert 'id="plot-capacity"' in measured


def test_a_negative_outcome(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "evaluation", plan_data())
    writer.seal(folder, "owner", TODAY)
    record_all(folder)
    answer_all(folder, region=0.0)
    assert judge(folder)["outcome"] == "not_worthwhile"
    text = body(build(folder, "fr"))
    assert "Pas d’intérêt : rester" in text
    assert "le critère éliminatoire region n’est pas satisfait" in text
    assert "non satisfait" in text


def test_what_was_altered_stands_first(decided: Path) -> None:
    result = next((decided / "results").rglob("*.json"))
    result.write_text(result.read_text().replace("toy-1", "toy-2"))
    text = body(build(decided, "en"))
    assert text.index("The record was altered") < text.index(Words("en")("outcome.none"))
    assert result.name in text
    assert Words("en")("outcome.move") + "</strong>" not in text


def test_an_edited_plan_is_named_and_the_sealed_one_shown(decided: Path) -> None:
    edit(decided / "plan.toml", "rules.move_probability", 0.01)
    text = body(build(decided, "en"))
    assert "rules.move_probability" in text
    assert text.index("The record was altered") < text.index("Move</strong>")


def test_sentences_of_the_evaluator_are_known_in_french(tmp_path: Path) -> None:
    """Starts that break every rule of what may be generalised; each derived sentence has a French form."""
    data = plan_data(stages__optimised=stage(), conditions__days_apart=3)
    folder = write_folder(tmp_path / "evaluation", data)
    writer.seal(folder, "owner", TODAY)
    odd = [
        made("baseline", 0, 100.0),
        made("baseline", 1, 100.0, emulated=True),
        made("port", 2, 90.0, device="other"),
        made("port", 3, 90.0, region="elsewhere"),
        made("port", 4, 90.0, region="unknown"),
        made("port", 5, 90.0),
    ]
    loads = [odd[5].loads[0].model_copy(update={"client_cpu_share": 0.9, "null_p99_ms": 50.0,
             "steadiness": Steadiness(verdict=verdict, change=0.5)}) for verdict in ("drifting_up", "drifting_down", "too_short")]  # fmt: skip
    odd[5] = odd[5].model_copy(update={"loads": loads, "source": "guidellm"})
    with writer.opened(folder) as evaluation:
        for measurement in odd:
            writer.record(evaluation, measurement)
    from torchport.migrate.evaluate.analysis import Analysis, StageFigures
    from torchport.migrate.evaluate.shown import not_shown

    evaluation = load_folder(folder)
    baseline = StageFigures(evaluation, "baseline")
    sentences = not_shown(evaluation, [Analysis(evaluation, name, baseline) for name in ("port", "optimised")])
    assert len(sentences) >= 12
    french = Words("fr")
    assert [s for s in sentences if not french.derived(s)[1]] == []
    assert all(french.derived(s)[0] != s for s in sentences)


def written(module: ModuleType) -> set[str]:
    """Every sentence or part of one that a module builds, its places filled with `port` and numbers."""
    found = set()
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else None for part in node.values]
            text = "".join("port" if n == 0 and part is None else part or "7" for n, part in enumerate(parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner | docs:
            text = node.value
        else:
            continue
        if len(re.findall(r"[a-z]+ ", text)) >= 3:
            found.add(text)
    return found


def test_every_sentence_in_the_evaluators_source_is_known_in_french() -> None:
    """A sentence added there without its French form fails here, whether or not a fixture brings it about."""
    french = Words("fr")
    sentences = written(shown) | {f"port: {text}." if ": " in text else text for text in written(analysis)}
    assert len(sentences) > 20
    unknown = [s for s in sentences if not french.derived(s.replace("over 7 of", "over 7% of"))[1]]
    assert unknown == []


def test_an_unknown_sentence_is_shown_as_it_is() -> None:
    assert Words("fr").derived("port: the moon was full.") == ("port: the moon was full.", False)
    assert Words("en").derived("port: the moon was full.")[1]


def test_both_languages_have_every_text() -> None:
    table = tomllib.loads((words.HERE / "words.toml").read_text(encoding="utf-8"))
    for section, rows in table.items():
        for name, texts in rows.items():
            assert set(texts) == set(LANGUAGES), f"{section}.{name}"
            fields = [sorted(re.findall(r"\{\w+\}", text)) for text in texts.values()]
            assert fields[0] == fields[1], f"{section}.{name}"


@pytest.mark.parametrize(
    ("value", "en", "fr"),
    [
        (51408.48, "51,408", "51\u202f408"),
        (1.4286, "1.43", "1,43"),
        (0.00166, "0.00166", "0,00166"),
        (0.000091, "9.1 × 10⁻⁵", "9,1 × 10⁻⁵"),
        (5.0, "5", "5"),
        (None, "–", "–"),
        (-1234.5, "-1,234", "-1\u202f234"),
    ],
)
def test_numbers(value: float | None, en: str, fr: str) -> None:
    assert (Words("en").number(value), Words("fr").number(value)) == (en, fr)


def test_command(decided: Path, tmp_path: Path) -> None:
    from torchport.cli import app

    out = tmp_path / "report.html"
    run = CliRunner().invoke(app, ["eval", "report", str(decided), "--lang", "fr", "-o", str(out)])
    assert run.exit_code == 0, run.output
    assert out.read_text().startswith("<!DOCTYPE html>")
    bad = CliRunner().invoke(app, ["eval", "report", str(decided), "--lang", "de", "-o", str(out)])
    assert (bad.exit_code, "lang must be one of en, fr" in bad.stderr) == (2, True)
    none = CliRunner().invoke(app, ["eval", "report", str(tmp_path / "none"), "-o", str(out)])
    assert (none.exit_code, "plan.toml" in none.stderr) == (2, True)


def test_the_page_in_chromium(decided: Path, tmp_path: Path) -> None:
    page, picture = tmp_path / "report.html", tmp_path / "report.png"
    save(page, build(decided, "fr"))
    seen = look(page, picture, 1100, 4200)
    assert seen.console == ()
    drawn = set(
        re.findall(
            r'id="(plot-\w+)"[^>]*class="[^"]*js-plotly-plot|class="[^"]*js-plotly-plot[^"]*"[^>]*id="(plot-\w+)"',
            seen.document,
        )
    )
    assert {a or b for a, b in drawn} == {"plot-capacity", "plot-latency", "plot-value", "plot-tornado"}
    assert picture.stat().st_size > 50_000


def test_the_knowledge_base_takes_a_folder_in(decided: Path) -> None:
    from torchport.migrate.kb.ingest import ingest

    facts = {"stage": "port", "session": "s", "position": 9, "where": "eval run", "must": "end with status 0"}
    evaluation = load_folder(decided)
    with evaluation.chain.locked():
        failure = evaluation.chain.append("failure", facts)
    entries = ingest(decided)
    assert next(entry.claim for entry in entries if entry.evidence == failure.id).endswith("must end with status 0")
    evidence = load_folder(decided).evidence
    assert {entry.kind for entry in entries} == {"change", "error", "measurement", "decision"}
    assert len([entry for entry in entries if entry.kind == "measurement"]) == 15
    assert all(entry.evidence in evidence for entry in entries)
    assert "move" in next(entry.claim for entry in entries if entry.kind == "decision")
    assert json.dumps([entry.as_dict() for entry in entries]).count("answer_sha256") == 0


def test_an_altered_folder_is_not_taken_in(decided: Path, tmp_path: Path) -> None:
    from torchport.migrate.kb.cli import app

    edit(decided / "plan.toml", "rules.move_probability", 0.01)
    done = CliRunner().invoke(app, ["import", str(decided), "--db", str(tmp_path / "kb.db")])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "rules.move_probability" in done.stderr
