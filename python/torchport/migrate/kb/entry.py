"""One entry of the knowledge base."""

from __future__ import annotations

import datetime
import hashlib
import json
import re
from dataclasses import asdict, dataclass, fields, replace

from torchport.migrate.kb.redact import redact

KINDS = ("finding", "change", "error", "measurement", "decision", "fact")
LIMIT = 4000  # characters of a field: an entry is a claim, not a log file


@dataclass(frozen=True)
class Entry:
    """A claim that somebody can check.

    claim: one statement. source: where it can be read or seen (address, file, command). date: ISO date of the source,
    or of the observation. versions: software and hardware it holds for. evidence: id of the run, file or hash that
    carries it. kind: one of KINDS. id: given by `make` or by the data file that the entry is derived from.
    """

    id: str
    kind: str
    claim: str
    source: str
    date: str
    versions: str = ""
    evidence: str = ""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, str):
                raise TypeError(f"[kb] {field.name} must be a string, got {type(value).__name__}")
            if len(value) > LIMIT:
                raise ValueError(f"[kb] {field.name} must have at most {LIMIT} characters, got {len(value)}")
        if self.kind not in KINDS:
            raise ValueError(f"[kb] kind must be one of {', '.join(KINDS)}, got {self.kind!r}")
        for name in ("id", "claim", "source"):
            if not getattr(self, name).strip():
                raise ValueError(f"[kb] {name} must not be empty: an entry without it cannot be checked")
        if not re.fullmatch(r"[a-z][\w./:+-]*", self.id):
            raise ValueError(f"[kb] id must be like error/torch-no-cuda or note/1a2b3c, got {self.id!r}")
        try:
            datetime.date.fromisoformat(self.date)
        except ValueError as err:
            raise ValueError(f"[kb] date must be YYYY-MM-DD, got {self.date!r}") from err

    def as_dict(self) -> dict[str, str]:
        """The fields by name."""
        return asdict(self)

    def redacted(self) -> Entry:
        """The entry without personal data, keys and home folders."""
        return replace(
            self, **{name: redact(getattr(self, name)) for name in ("claim", "source", "versions", "evidence")}
        )


def make(
    kind: str,
    claim: str,
    source: str,
    *,
    date: str = "",
    versions: str = "",
    evidence: str = "",
    keep_personal: bool = False,
) -> Entry:
    """An entry whose id follows from its kind, claim, source and evidence, so that adding it again adds nothing.

    date: today when empty. keep_personal: leave e-mail addresses, keys and home folders as they are.
    """
    day = date or datetime.date.today().isoformat()
    entry = Entry("note/new", kind, claim.strip(), source.strip(), day, versions.strip(), evidence.strip())
    if not keep_personal:
        entry = entry.redacted()
    words = json.dumps([entry.kind, entry.claim, entry.source, entry.evidence])
    return replace(entry, id=f"{kind}/{hashlib.sha256(words.encode()).hexdigest()[:12]}")
