"""The knowledge base: entries, redaction, search, the shipped entries, the command line, what is not stored."""

import json
import re
import sqlite3
import stat
import subprocess
import sys
import urllib.request
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from torchport.migrate.errors import glossary
from torchport.migrate.errors.answer import codes
from torchport.migrate.kb import Entry, Store, default_path, shipped
from torchport.migrate.kb.cli import app
from torchport.migrate.kb.entry import LIMIT, make
from torchport.migrate.kb.redact import clean, redact
from torchport.migrate.kb.serve import loopback

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2ln"
SECRETS = [
    ("mail me at jane.doe+x@example.co.uk now", "mail me at <e-mail> now"),
    ("AKIAIOSFODNN7EXAMPLE", "<key>"),
    ("key AIza" + "a" * 35 + ".", "key <key>."),
    ("token ghp_" + "a1" * 18, "token <key>"),
    ("github_pat_" + "a1" * 25, "<key>"),
    ("hf_" + "aB" * 17, "<key>"),
    ("xoxb-1234567890-abc", "<key>"),
    ("sk-proj-" + "a1" * 12, "<key>"),
    ("sk_live_" + "a1" * 10, "<key>"),
    (f"cookie {JWT}", "cookie <key>"),
    ("Authorization: Bearer abcdef0123456789", "Authorization: Bearer <token>"),
    ("https://bob:hunter2@host/x", "https://<token>@host/x"),
    ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMIK7MDENG", "AWS_SECRET_ACCESS_KEY=<token>"),
    ('{"password": "correct horse"}', '{"password": "<token> horse"}'),
    ("api_key: 0123456789", "api_key: <token>"),
    ('File "/home/jane/app/train.py", line 3', 'File "~/app/train.py", line 3'),
    ("/Users/jane/app and /root/app", "~/app and ~/app"),
    (r"C:\Users\jane\app", r"~\app"),
    ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nend", "<key>\nend"),
]
PLAIN = [
    "max_tokens=1024000, pad_token_id: 0",
    "Ran out of memory in memory space hbm. Used 21.95G of 15.48G hbm",
    "x @ w and @triton.jit",
    "/usr/lib/python3.11/site-packages/torch/home.py",
    "basic functionality of attention",
    "https://openxla.org/xla/errors/error_1000",
    "fusion.4431 = (f32[1024]{0:T(1024)}, f32[24,128]{1,0:T(8,128)})",
]


@pytest.fixture
def store(tmp_path: Path):
    with Store(tmp_path / "kb.db") as made:
        yield made


def note(number: int = 0, **more: str) -> Entry:
    given = {"kind": "finding", "claim": f"claim {number}", "source": "a.py:1", **more}
    return make(given.pop("kind"), given.pop("claim"), given.pop("source"), **given)


@pytest.mark.parametrize(("text", "left"), SECRETS)
def test_secrets_and_persons_are_taken_out(text: str, left: str) -> None:
    assert redact(text) == left
    assert redact(left) == left


@pytest.mark.parametrize("text", PLAIN)
def test_ordinary_text_stays(text: str) -> None:
    assert redact(text) == text


def test_prompts_and_answers_are_left_out_of_imported_data() -> None:
    data = {"prompt": "I am ill", "rows": [{"Messages": ["x"], "user_id": 7, "score": 1.0, "note": "a@b.example"}]}
    assert clean(data) == {"rows": [{"score": 1.0, "note": "<e-mail>"}]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "rumour"}, "kind must be one of finding"),
        ({"claim": " "}, "claim must not be empty"),
        ({"source": ""}, "source must not be empty"),
        ({"date": "yesterday"}, "date must be YYYY-MM-DD"),
        ({"claim": "x" * (LIMIT + 1)}, "at most"),
    ],
)
def test_an_entry_must_be_checkable(change: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        note(**change)


def test_the_same_claim_is_stored_once(store: Store) -> None:
    before = store.count()
    assert store.add([note(1), note(1), note(2)]) == 2
    assert store.add([note(1)]) == 0
    assert store.count() == before + 2
    assert store.show(note(1).id) == note(1)


def test_what_is_stored_holds_nothing_private(store: Store, tmp_path: Path) -> None:
    store.add([note(claim="jane@example.com ran it", source="/home/jane/run.log", evidence="sk-" + "a1" * 12)])
    raw = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    for private in (b"jane", b"sk-a1"):
        assert private not in raw
    assert make("fact", "by jane@example.com", "x", keep_personal=True).claim == "by jane@example.com"


def test_search_ranks_and_filters(store: Store) -> None:
    found = store.search("Ran out of memory in memory space hbm")
    assert found[0].id == "error/xla-hbm-compile"
    assert store.search("TP0103")[0].id == "code/TP0103"
    assert {entry.kind for entry in store.search("memory", kind="error")} == {"error"}
    assert store.search("no such words anywhere") == []
    store.add([note(claim="v7 is fast"), note(claim="v8 is fast")])
    assert [entry.claim for entry in store.search("v7 fast")] == ["v7 is fast"]
    assert [entry.claim for entry in store.search("v8")] == ["v8 is fast"]  # shorter than a trigram


@pytest.mark.parametrize(
    "words", ['"', "a OR b", "claim:x", "NEAR(a b)", "100%", "a*", "'; DROP TABLE entry; --", "[]{}"]
)
def test_search_takes_any_text(store: Store, words: str) -> None:
    if re.search(r"[\w.+-]", words):
        store.search(words)
    else:
        with pytest.raises(ValueError, match="must have a word"):
            store.search(words)


def test_the_base_ships_with_the_glossary_and_the_codes(store: Store) -> None:
    ids = {entry.id for entry in store.entries()}
    assert {known.entry for known in glossary()} <= ids
    assert {f"code/{code}" for code in codes()} <= ids
    for entry in store.entries():
        assert entry.source and entry.date
        assert entry.redacted() == entry  # nothing that ships looks like a secret


def test_shipped_entries_are_renewed_and_own_ones_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kb.db"
    with Store(path) as store:
        store.add([note(1)])
    other = Entry("rule/CU001", "fact", "a newer claim", "x", "2027-01-01")
    monkeypatch.setattr(shipped, "entries", lambda: (other,))
    monkeypatch.setattr(shipped, "digest", lambda: "another")
    with Store(path) as store:
        assert [entry.id for entry in store.entries()] == sorted([note(1).id, "rule/CU001"])
        assert store.search("newer claim") == [other]
        assert store.search("Torch not compiled with CUDA") == []


def test_the_file_is_its_owners(tmp_path: Path) -> None:
    path = tmp_path / "new" / "kb.db"
    Store(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_the_default_place_follows_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_path() == tmp_path / "torchport" / "kb.db"


def test_a_file_that_is_no_base_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("my notes, long enough to be something else than an empty database\n" * 20)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="must be a knowledge base"):
        Store(path)
    assert path.read_bytes() == before


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kb.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 99")
    with pytest.raises(ValueError, match="schema of at most"):
        Store(path)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.9.9.9"])
def test_loopback_is_served(host: str) -> None:
    assert loopback(host) == host


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.168.1.5", "8.8.8.8", "example.com", "", "localhost.example.com"]
)
def test_other_addresses_are_refused(host: str) -> None:
    with pytest.raises(ValueError, match="must be 127.0.0.1"):
        loopback(host)


def test_serve_shows_entries_on_loopback_only(tmp_path: Path) -> None:
    """Datasette itself, on a free port: an entry is readable, the database file is not offered, writing is not possible."""
    code = (
        "import sys; from torchport.migrate.kb.cli import app; "
        f"app(['serve', '--db', {str(tmp_path / 'kb.db')!r}, '--port', '0'])"
    )
    server = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr
        address = next(match[0] for line in server.stderr if (match := re.search(r"http://127\.0\.0\.1:\d+", line)))
        with urllib.request.urlopen(f"{address}/kb/entry/code~2FTP0103.json", timeout=30) as answer:
            assert json.load(answer)["primary_key_values"] == ["code/TP0103"]
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(f"{address}/kb.db", timeout=30)
    finally:
        server.terminate()
        server.wait(timeout=30)
        server.stderr.close()


def run(tmp_path: Path, *arguments: str):
    return CliRunner().invoke(app, [*arguments, "--db", str(tmp_path / "kb.db")])


def test_command_line_round_trip(tmp_path: Path) -> None:
    added = run(
        tmp_path, "add", "v5e has no fp8", "--kind", "fact", "--source", "https://a.example", "--evidence", "E1"
    )
    assert added.exit_code == 0
    name = added.stdout.strip()
    assert json.loads(run(tmp_path, "show", name, "--json").stdout)["evidence"] == "E1"
    assert name in run(tmp_path, "search", "v5e fp8", "--kind", "fact", "--json").stdout
    assert [row["id"] for row in json.loads(run(tmp_path, "export", "--own").stdout)] == [name]
    assert run(tmp_path, "export", "--own", "--format", "csv").stdout.splitlines()[1].startswith(f"{name},fact,")
    assert f"## {name}" in run(tmp_path, "export", "--own", "--format", "markdown").stdout
    assert run(tmp_path, "export", "--own", "-o", str(tmp_path / "out.json")).exit_code == 0
    assert json.loads((tmp_path / "out.json").read_text())[0]["id"] == name
    (tmp_path / "folder").mkdir()
    assert run(tmp_path, "export", "-o", str(tmp_path / "folder")).exit_code == 2


def test_no_answer_without_an_entry(tmp_path: Path) -> None:
    done = run(tmp_path, "search", "qwertyuiop")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "no answer" in done.stderr
    shown = run(tmp_path, "show", "rule/CU999")
    assert shown.exit_code == 2
    assert "must be the id of an entry" in shown.stderr


def test_bad_input_is_said(tmp_path: Path) -> None:
    assert "kind must be one of" in run(tmp_path, "add", "x", "--kind", "no", "--source", "y").stderr
    assert "must be 127.0.0.1" in run(tmp_path, "serve", "--host", "0.0.0.0").stderr
    assert "format must be one of" in run(tmp_path, "export", "--format", "xml").stderr
    (tmp_path / "a.json").write_text("{}")
    assert "must name a schema" in run(tmp_path, "import", str(tmp_path / "a.json")).stderr


def test_scan_and_port_results_become_entries(tmp_path: Path) -> None:
    finding = {
        "rule": "CU001", "path": "a.py", "line": 3, "text": "x.cuda()  # jane@example.com", "effect": ["fails"],
        "effort": "minutes", "set": "port", "guarded": False,
    }  # fmt: skip
    change = {"rule": "CU001", "path": "a.py", "line": 3, "before": "x.cuda()", "after": "x.to(device)"}
    files = {
        "scan.json": {"schema_version": "torchport.scan/1", "findings": [finding]},
        "port.json": {"schema_version": "torchport.port/1", "applied": True, "changes": [change]},
    }
    for name, data in files.items():
        (tmp_path / name).write_text(json.dumps(data))
        path = str(tmp_path / name)
        assert "1 entries, 1 new" in run(tmp_path, "import", path).stdout
        assert "1 entries, 0 new" in run(tmp_path, "import", path).stdout
    rows = json.loads(run(tmp_path, "export", "--own").stdout)
    assert {row["kind"] for row in rows} == {"finding", "change"}
    assert "jane" not in json.dumps(rows)
    assert all("sha256:" in row["evidence"] and "rule/CU001" in row["evidence"] for row in rows)


def test_check_and_run_results_become_entries(tmp_path: Path) -> None:
    note = {"code": "float32", "severity": "note", "what": "full precision", "where": "", "advice": "autocast"}
    crash = {"code": "crash", "severity": "error", "what": "did not finish", "where": "t.py:3", "advice": ""}
    target = {
        "target": "tpu:v6e:1x1",
        "compiles": True,
        "fits": False,
        "estimate": {"seconds": 0.25},
        "findings": [note],
    }
    checked = {
        "schema": "torchport.check/1",
        "date": "2026-12-01",
        "script": "t.py",
        "findings": [crash],
        "targets": [target],
    }
    owed = {"file": "t.py", "line": 2, "what": "Tensor.cuda()", "to": "Tensor.to('tpu')", "rule": "CU001", "count": 4}
    run_log = {"schema": "torchport.run/1", "redirections": [owed]}
    for name, data in (("check.json", checked), ("run.json", run_log)):
        (tmp_path / name).write_text(json.dumps(data))
        run(tmp_path, "import", str(tmp_path / name))
    rows = {row["claim"]: row for row in json.loads(run(tmp_path, "export", "--own").stdout)}
    assert set(rows) == {
        "t.py in emulation: error crash: did not finish",
        "t.py on tpu:v6e:1x1: compiles yes, fits no; a step at best 0.25 s, estimate, not measured",
        "t.py on tpu:v6e:1x1: note float32: full precision Next: autocast",
        "change still owed: Tensor.cuda() was carried over to Tensor.to('tpu') while running, 4 times",
    }
    assert rows["t.py in emulation: error crash: did not finish"]["kind"] == "error"
