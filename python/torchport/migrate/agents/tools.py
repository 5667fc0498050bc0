"""What each tool does, as plain functions over a Root. Paths in and out are relative to the root."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torchport.migrate import errors
from torchport.migrate.agents import process
from torchport.migrate.agents.root import Refused, Root
from torchport.migrate.errors.answer import answers
from torchport.migrate.kb import redact
from torchport.migrate.kb.entry import Entry, make
from torchport.migrate.kb.ingest import entries
from torchport.migrate.kb.store import Store

ROWS = 500  # findings handed on; `total` says how many there are
TAIL = 20_000  # characters of a program's output that are handed on
MAX_SECONDS = 1800
# What a started program gets of the server's environment: no credentials that happen to lie there.
_PASSED = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "XDG_CACHE_HOME")
_PREFIXES = ("TORCHPORT_", "TORCH_", "XLA_", "OMP_", "MKL_", "OPENBLAS_")


class Tools:
    """The tools over one root. With write, what they find is kept in ROOT/.torchport/kb.db."""

    def __init__(self, root: Root) -> None:
        self.root = root
        self._base = root.folder / ".torchport" / "kb.db"

    # ---- reading

    def scan(self, path: str = ".") -> dict[str, Any]:
        """Findings of `torchport scan`."""
        target = self.root.path(path)
        result = self._migrate(lambda api: api.scan_tree(target))
        result["total"] = len(result["findings"])
        result["findings"] = result["findings"][:ROWS]
        return result

    def port(self, path: str = ".", apply: bool = False, device: str = "tpu") -> dict[str, Any]:
        """The automatic changes of `torchport port` as a diff; written only when asked and allowed."""
        target = self.root.path(path)
        if apply:
            self.root.may_write("applying a port")
        return self._migrate(lambda api: api.port(target, apply, device), keep=apply)

    def check(self, script: str, targets: list[str], arguments: list[str], seconds: int = 900) -> dict[str, Any]:
        """The verdicts of `torchport check` for chips that are not there. It runs the script, so it needs write."""
        target = self.root.path(script, folder=False)
        self.root.may_write("running a script")
        with tempfile.TemporaryDirectory(prefix="torchport-mcp-") as folder:
            out = Path(folder) / "check.json"
            options = [option for name in targets for option in ("--target", name)]
            done = self._command(
                "check", [*options, "--json", str(out), "--", str(target), *arguments], _limit(seconds)
            )
            return {"exit_code": done["exit_code"], "result": self._result(out), **_output(done)}

    def eval_status(self, folder: str = ".") -> dict[str, Any]:
        """Where an evaluation stands: seal, stages, what is wrong with it, the decision."""
        from torchport.migrate.evaluate import EvalError
        from torchport.migrate.evaluate.status import status

        target = self.root.path(folder, folder=True)
        try:
            return redact.clean(self._cleaned(status(target)))
        except EvalError as err:
            raise Refused(self.clean(str(err))) from err

    def explain_error(self, text: str) -> dict[str, Any]:
        """Cause and next step, each with the id of its entry; no entry, no answer."""
        found = [answer.as_dict() for answer in answers(text)]
        if not found:
            note = f"None of {len(errors.glossary())} known messages is in the text, so there is no answer."
            return {"answers": [], "note": note}
        words, entry = str(found[0]["words"]), str(found[0]["entry"])
        self._add([make("error", f"{words[:400]}: see {entry}", "torchport mcp, explain_error", evidence=entry)])
        return {"answers": found}

    def kb_search(self, words: str, kind: str = "", limit: int = 10) -> dict[str, Any]:
        """Entries of the knowledge base."""
        found = self._search(words, kind, min(limit, 50))
        return (
            {"entries": found}
            if found
            else {"entries": [], "note": "No entry holds these words, so there is no answer."}
        )

    # ---- running

    def run(self, script: str, arguments: list[str], seconds: int = 600) -> dict[str, Any]:
        """A script through `torchport run`, on the device. A program may write anything, so it needs write."""
        target = self.root.path(script, folder=False)
        self.root.may_write("running a script")
        with tempfile.TemporaryDirectory(prefix="torchport-mcp-") as folder:
            log = Path(folder) / "run.json"
            done = self._command("run", ["--log", str(log), "--", str(target), *arguments], _limit(seconds))
            owed = self._result(log)
        result = {"exit_code": done["exit_code"], "changes_owed": owed, **_output(done)}
        if done["exit_code"] != 0:
            result["explanation"] = self.explain_error(done["output"])
        return result

    # ---- shared

    def _command(self, name: str, arguments: list[str], seconds: float) -> dict[str, Any]:
        """One `torchport` command in a process of its own, its words redacted."""
        environment = {k: v for k, v in os.environ.items() if k in _PASSED or k.startswith(_PREFIXES)}
        command = [sys.executable, "-m", "torchport.cli", name, *arguments]
        try:
            code, said = process.run(command, self.root.folder, environment, seconds)
        except process.Overran as err:
            words = self.clean(err.output.decode(errors="replace"))[-2000:]
            raise Refused(
                f"[mcp] torchport {name} must end within {seconds:g} s, got no end. It said: {words}"
            ) from err
        return {"exit_code": code, "output": self.clean(said.decode(errors="replace"))}

    def clean(self, text: str) -> str:
        """Without the root's place on this machine, persons and keys."""
        return redact.redact(text.replace(str(self.root.folder) + "/", "").replace(str(self.root.folder), "."))

    def _cleaned(self, value: Any) -> Any:
        """JSON data with every string cleaned."""
        if isinstance(value, str):
            return self.clean(value)
        if isinstance(value, dict):
            return {key: self._cleaned(part) for key, part in value.items()}
        return [self._cleaned(part) for part in value] if isinstance(value, list) else value

    def _result(self, path: Path) -> Any:
        """What a command wrote, taken into the base where that is allowed; None when it wrote nothing."""
        if not path.is_file():
            return None
        result = self._cleaned(json.loads(path.read_text(encoding="utf-8")))
        self._add(entries(json.dumps(result).encode(), path.name))
        return result

    def _migrate(self, call: Callable[[Any], Any], keep: bool = True) -> dict[str, Any]:
        """A result of scan or port as JSON, taken into the base where that is allowed."""
        from torchport.migrate import api

        try:
            result = self._cleaned(call(api).model_dump(mode="json"))
        except (ValueError, OSError) as err:
            raise Refused(self.clean(str(err))) from err
        if keep:
            self._add(entries(json.dumps(result).encode(), "result"))
        return result

    def _add(self, found: list[Entry]) -> None:
        if self.root.write:
            self._base_is_ours()
            with Store(self._base) as store:
                store.add(found)

    def _search(self, words: str, kind: str, limit: int) -> list[dict[str, str]]:
        self._base_is_ours()
        with Store.snapshot(self._base) as store:
            try:
                return [entry.as_dict() for entry in store.search(words, kind, limit)]
            except ValueError as err:
                raise Refused(str(err)) from err

    def _base_is_ours(self) -> None:
        """The base must not lie elsewhere by a link."""
        if any(path.is_symlink() for path in (self._base, self._base.parent)):
            raise Refused("[mcp] .torchport/kb.db must hold no symbolic link")


def _limit(seconds: int) -> float:
    if not 1 <= seconds <= MAX_SECONDS:
        raise Refused(f"[mcp] seconds must be in [1, {MAX_SECONDS}], got {seconds}")
    return seconds


def _output(done: dict[str, Any]) -> dict[str, Any]:
    """The end of the output, and whether there was more."""
    return {"output": done["output"][-TAIL:], "output_is_whole": len(done["output"]) <= TAIL}
