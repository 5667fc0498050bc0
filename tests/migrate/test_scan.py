"""torchport scan: the catalogue's schema, the three outputs, bad input, and that none of it needs torch."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from pydantic import ValidationError
from sarif_pydantic import Sarif
from typer.testing import CliRunner

import torchport
from torchport import migrate
from torchport.cli import app
from torchport.migrate import output
from torchport.migrate.catalogue import PATH, Catalogue, catalogue
from torchport.migrate.python_scan import CHECKS
from torchport.migrate.rewrites import _BUILDERS

DEMO = Path(__file__).parents[2] / "examples" / "cuda_service"
RULES = 88


def invoke(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


# ---- the catalogue ---------------------------------------------------------------------------------------------------


def test_catalogue_is_complete():
    rules = catalogue().rules
    assert len(rules) == RULES
    assert {name for rule in rules for name in rule.checks} == set(CHECKS)
    assert {rule.rewrite for rule in rules if rule.rewrite} == set(_BUILDERS)
    assert {rule.source for rule in rules} == set(catalogue().sources)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("effect", ["explodes"], "effect"),
        ("effort", "days", "effort"),
        ("set", "both", "set"),
        ("id", "CU999", "without a gap"),
        ("source", "hearsay", "must name one of the sources"),
        ("names", ["torch.("], "regular expression"),
        ("automation", "manual", "if and only if it is automatic"),
        ("colour", "red", "colour"),
    ],
)
def test_catalogue_refuses(field, value, message):
    data = tomllib.loads(PATH.read_text())
    data["rule"][0][field] = value
    with pytest.raises(ValidationError, match=message):
        Catalogue.model_validate(data)


def test_rules_command_explains_one_and_refuses_another():
    assert "known in the field" not in invoke("rules", "CU020").output
    assert "torch_tpu 0.2.0" in invoke("rules", "cu020").output
    refused = invoke("rules", "CU200")
    assert refused.exit_code == 2
    assert "must be one of CU001 to CU088, got CU200" in refused.output


# ---- outputs ---------------------------------------------------------------------------------------------------------


def test_json_has_a_schema_version_and_every_field():
    data = json.loads(invoke("scan", DEMO, "--format", "json").stdout)
    assert data["schema_version"] == "torchport.scan/1"
    assert {f["rule"] for f in data["findings"]} >= {"CU001", "CU002", "CU003", "CU013", "CU033", "CU087"}
    assert {"place", *data["findings"][0]} >= {
        "rule",
        "path",
        "line",
        "effect",
        "effort",
        "set",
        "automatic",
        "guarded",
    }
    assert all(f["verified_by"] is None for f in data["findings"])


def test_sarif_is_sarif(tmp_path):
    path = tmp_path / "log.sarif"
    assert invoke("scan", DEMO, "--format", "sarif", "--output", path).exit_code == 0
    log = json.loads(path.read_text())
    model = Sarif.model_validate(log)
    assert (
        json.loads(model.model_dump_json(by_alias=True, exclude_unset=True)) == log
    )  # nothing that SARIF does not know
    run = log["runs"][0]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        assert (DEMO / uri).is_file()
        assert result["locations"][0]["physicalLocation"]["region"]["startLine"] >= 1
    prints = [r["partialFingerprints"]["place/v1"] for r in run["results"]]
    assert len(prints) == len(migrate.scan(DEMO))
    assert {"note"} == {r["level"] for r in run["results"] if r["properties"]["guarded"]}


def test_table_counts_what_the_json_holds():
    findings = migrate.scan(DEMO)
    text = invoke("scan", DEMO).output
    due = [f for f in findings if not f.guarded]
    assert f"{len(due)} findings: {sum(f.set == 'port' for f in due)} in the port set" in text
    assert output.summary(findings) in text.replace("\n", "")


def test_fail_is_for_ci(tmp_path):
    assert invoke("scan", DEMO, "--fail").exit_code == 1
    (tmp_path / "a.py").write_text("import torch\n")
    assert invoke("scan", tmp_path, "--fail").exit_code == 0


def test_notebook_places_are_cells():
    places = {f.place for f in migrate.scan(DEMO) if f.path.endswith(".ipynb")}
    assert "explore.ipynb:cell 1:1" in places


# ---- bad input -------------------------------------------------------------------------------------------------------


def test_missing_path_is_refused(tmp_path):
    refused = invoke("scan", tmp_path / "none")
    assert refused.exit_code == 2
    assert "[scan] must be a file or a folder, got" in refused.output


def test_other_files_are_refused_by_name_and_skipped_in_folders(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"\0\1")
    assert invoke("scan", tmp_path / "a.bin").exit_code == 2
    assert migrate.scan_tree(tmp_path).files == 0


def test_unreadable_files_are_named_and_lose_nothing_else(tmp_path):
    (tmp_path / "broken.py").write_text("import torch\ndef f(:\n    x.cuda()\n")
    (tmp_path / "latin.py").write_bytes(b"# caf\xe9 torch\n")
    (tmp_path / "broken.ipynb").write_text('{"cells": 3}')
    (tmp_path / "good.py").write_text("import torch\ntorch.cuda.synchronize()\n")
    result = migrate.scan_tree(tmp_path)
    assert {u.path for u in result.unread} == {"broken.py", "latin.py", "broken.ipynb"}
    assert [f.rule for f in result.findings] == ["CU016"]
    assert "not read: broken.py" in invoke("scan", tmp_path).output


def test_deep_nesting_and_odd_escapes_disturb_nothing(tmp_path, capfd):
    (tmp_path / "deep.py").write_text("import torch\nx = " + "(" * 150 + "1" + ")" * 150 + " + 1" * 3000 + "\n")
    (tmp_path / "escape.py").write_text("import torch\nx = '\\d'\ntorch.cuda.synchronize()\n")
    result = migrate.scan_tree(tmp_path)
    assert [u.path for u in result.unread] == ["deep.py"]
    assert [f.path for f in result.findings] == ["escape.py"]
    assert capfd.readouterr().err == ""


def test_links_are_not_followed(tmp_path):
    outside = tmp_path / "outside.py"
    outside.write_text("import torch\ntorch.cuda.synchronize()\n")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "link.py").symlink_to(outside)
    assert migrate.scan_tree(tmp_path / "root").files == 0


def test_generated_folders_are_left_out(tmp_path):
    for folder in (".venv", "node_modules", ".git"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.py").write_text("import torch\ntorch.cuda.synchronize()\n")
    assert migrate.scan_tree(tmp_path).files == 0


def test_a_local_module_is_not_a_library(tmp_path):
    (tmp_path / "marlin.py").write_text("def swim(): ...\n")
    (tmp_path / "a.py").write_text("import marlin\nmarlin.swim()\n")
    assert migrate.scan(tmp_path) == []


def test_scan_and_port_import_no_torch():
    code = (
        "import sys, types\n"
        "package = types.ModuleType('torchport')\n"  # the package itself starts the device, which is torch's
        f"package.__path__ = [{str(Path(torchport.__file__).parent)!r}]\n"
        "sys.modules['torchport'] = package\n"
        "from torchport import migrate\n"
        f"assert migrate.scan({str(DEMO)!r})\n"
        f"assert migrate.port({str(DEMO)!r}).changes\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
