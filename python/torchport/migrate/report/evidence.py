"""The evidence list of a report: what each number leads to."""

from __future__ import annotations

import hashlib
from typing import Any

from torchport.migrate.evaluate.folder import Evaluation
from torchport.pages import evidence_link

PLAN = "plan.toml"


class Evidence:
    """Collects what is cited. An id is that of an entry of the folder's log; several ids together become a set."""

    def __init__(self, evaluation: Evaluation) -> None:
        self._entries = evaluation.evidence
        self._sets: dict[str, tuple[str, ...]] = {}
        self._cited: dict[str, None] = {}
        # A figure that no single entry carries is stated by the decision, before it by the plan.
        last = evaluation.decisions[-1:] or evaluation.seals[-1:]
        self.default = last[0].id if last else PLAN

    def cite(self, text: object, ids: list[str] | tuple[str, ...] | str = ()) -> Any:
        """The text as a link to its evidence. Raises KeyError for an id that the log has not."""
        wanted = (ids,) if isinstance(ids, str) else tuple(dict.fromkeys(ids))
        wanted = wanted or (self.default,)
        for name in wanted:
            if name not in self._entries and name != PLAN:
                raise KeyError(f"[report] evidence {name} must be an entry of the log, got none")
            self._cited[name] = None
        if len(wanted) == 1:
            return evidence_link(text, wanted[0])
        name = "set-" + hashlib.sha256("\0".join(wanted).encode()).hexdigest()[:8]
        self._sets[name] = wanted
        return evidence_link(text, name)

    def sets(self) -> dict[str, tuple[str, ...]]:
        """Sets by name, in the order in which they were cited."""
        return self._sets

    def entries(self) -> list[dict[str, Any]]:
        """The cited entries in the order of the log, with their files and hashes."""
        rows = []
        if PLAN in self._cited:
            rows.append({"id": PLAN, "time": "", "kind": "plan", "files": {}})
        for name, entry in self._entries.items():
            if name in self._cited:
                rows.append({"id": name, "time": entry.time, "kind": entry.kind, "files": entry.files})
        return rows
