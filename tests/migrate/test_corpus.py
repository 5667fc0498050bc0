"""The labelled corpus: what must be found is found, what is clean stays clean, and a port neither breaks nor repeats."""

import ast
import json

import pytest
from corpus import Label, read

from torchport import migrate
from torchport.migrate.catalogue import catalogue

RECALL = 0.98  # share of labels found, of the acceptance criteria
FALSE_ALARMS = 0.02  # share of clean snippets with a finding, and of findings without a label


@pytest.fixture(scope="module")
def snippets():
    return read()


@pytest.fixture(scope="module")
def found(snippets, tmp_path_factory):
    """Snippet -> what the scan reports, as labels."""
    root = tmp_path_factory.mktemp("corpus")
    answer = {}
    for number, snippet in enumerate(snippets):
        result = migrate.scan_tree(snippet.write(root / str(number)))
        assert not result.unread, (snippet.name, result.unread)
        assert result.files == 1, snippet.name
        answer[snippet] = {Label(f.rule, (f.cell, f.line), f.guarded) for f in result.findings}
    return answer


def test_half_of_the_corpus_is_clean(snippets):
    clean = sum(snippet.is_clean for snippet in snippets)
    assert len(snippets) >= 200
    assert clean >= len(snippets) / 2


def test_every_rule_is_labelled_and_met(snippets, found):
    rules = {rule.id for rule in catalogue().rules}
    assert {label.rule for snippet in snippets for label in snippet.labels} == rules
    assert {label.rule for snippet in snippets for label in found[snippet] & snippet.labels} == rules


def test_recall(snippets, found):
    missed = [(s.name, label) for s in snippets for label in s.labels - found[s]]
    total = sum(len(snippet.labels) for snippet in snippets)
    print(f"recall {1 - len(missed) / total:.4f} of {total} labels")
    assert 1 - len(missed) / total >= RECALL, missed


def test_false_alarms(snippets, found):
    alarms = [(s.name, label) for s in snippets for label in found[s] - s.labels if not label.guarded]
    clean = [snippet for snippet in snippets if snippet.is_clean]
    disturbed = {name for name, _ in alarms} & {snippet.name for snippet in clean}
    findings = sum(len(labels) for labels in found.values())
    print(f"false alarms: {len(alarms)} of {findings} findings, in {len(disturbed)} of {len(clean)} clean snippets")
    assert len(alarms) / findings <= FALSE_ALARMS, alarms
    assert len(disturbed) / len(clean) <= FALSE_ALARMS, disturbed


def test_guarded_places_are_marked(snippets, found):
    for snippet in snippets:
        wanted = {label for label in snippet.labels if label.guarded}
        assert {label for label in found[snippet] if label.guarded} == wanted, snippet.name


def test_port_parses_keeps_guards_and_repeats_nothing(snippets, tmp_path):
    changed = 0
    for number, snippet in enumerate(snippets):
        path = snippet.write(tmp_path / str(number))
        guarded = [path.read_text().splitlines()[label.place[1] - 1] for label in snippet.labels if label.guarded]
        result = migrate.port(path, apply=True)
        text = path.read_text()
        changed += len(result.changes)
        if path.suffix == ".py":
            ast.parse(text)
        elif path.suffix in (".json", ".ipynb"):
            json.loads(text)
        assert all(line in text.splitlines() for line in guarded), snippet.name
        if snippet.is_clean and not result.changes:
            assert text == snippet.text or path.suffix == ".ipynb", snippet.name
        again = migrate.port(path, apply=True)
        assert not again.changes, (snippet.name, again.changes)
        assert path.read_text() == text, snippet.name
    assert changed >= 50


def test_a_port_leaves_nothing_automatic_behind(snippets, tmp_path):
    for number, snippet in enumerate(snippets):
        path = snippet.write(tmp_path / str(number))
        migrate.port(path, apply=True)
        assert not [f for f in migrate.scan(path) if f.automatic], snippet.name
