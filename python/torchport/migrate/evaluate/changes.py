"""The change log of `torchport port` in a stage's ledger: what was rewritten, and what is still owed by hand."""

from __future__ import annotations

import json
from pathlib import Path

from torchport.migrate.evaluate.chain import Entry
from torchport.migrate.evaluate.errors import EvalError
from torchport.migrate.evaluate.plan import MEASURED_STAGES
from torchport.migrate.evaluate.writer import opened

PORT_SCHEMA = "torchport.port/"


def add_log(folder: Path, stage: str, path: Path) -> list[Entry]:
    """One entry a rewrite that was applied. The source lines stay in the code base; the entry says file, line and rule."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        rows = raw["changes"] if str(raw["schema_version"]).startswith(PORT_SCHEMA) else None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EvalError("eval change", "be given the JSON of torchport port", f"{path}: {error}") from error
    if rows is None or not raw["applied"]:
        got = "another schema" if rows is None else "a dry run, which changed nothing"
        raise EvalError("eval change", "be given the JSON of torchport port --apply", got)
    if not rows:
        raise EvalError("eval change", "be given a log with changes", "none")
    if stage not in MEASURED_STAGES:
        raise EvalError("eval change", f"name a stage of {', '.join(MEASURED_STAGES)}", stage)
    with opened(folder) as evaluation:
        return [
            evaluation.chain.append(
                "change",
                {
                    "stage": stage,
                    "what": f"{row['path']}:{row['line']}",
                    "rule": row["rule"],
                    "effect": "",
                    "by": "torchport port",
                },
            )
            for row in rows
        ]
