"""Runs a script in emulation for a few steps and keeps what it compiled and launched.

Started as `python -m torchport.check.script OUT STEPS SCRIPT [ARGS...]`, in a process of its own: a script may crash or
hang. A step ends at each `optimizer.step()` of the first optimiser seen; without one, at the end of each call of the
outermost module; without that, the whole run is one step. Nothing in the script is changed.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import traceback
from pathlib import Path
from typing import Any

STEPS = 4


class _Enough(BaseException):
    """Ends the script after the last step; not an Exception, so that no `except Exception` of a script holds it."""


class _Recorder:
    """Boundaries of steps, with the counters at each."""

    def __init__(self, core: Any, steps: int) -> None:
        self.core, self.steps = core, steps
        self.launches: list[Any] = []
        self.marks: dict[str, list[dict[str, int]]] = {"train": [], "infer": []}
        self.first: Any = None
        self.depth = 0

    def mark(self, kind: str) -> None:
        self.launches += self.core.capture_launches()
        report = self.core.report()
        at = {"launches": len(self.launches), "compiled": report["programs_compiled"], "syncs": report["host_syncs"]}
        self.marks[kind].append(at)
        if len(self.marks[kind]) >= (self.steps if kind == "train" else 8 * self.steps):
            raise _Enough

    def after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self.first = self.first or optimizer
        if optimizer is self.first:
            self.mark("train")

    def before_module(self, module: Any, args: Any) -> None:
        self.depth += 1

    def after_module(self, module: Any, args: Any, output: Any) -> None:
        self.depth -= 1
        if self.depth == 0:
            self.mark("infer")


def record(script: Path, arguments: list[str], steps: int) -> dict[str, Any]:
    """What the run did: programs, launches, boundaries of steps, report, redirections, and how it ended."""
    import torchport

    torchport.activate()
    import torch
    from torch.nn.modules import module as modules
    from torch.optim.optimizer import register_optimizer_step_post_hook

    from torchport import _C
    from torchport.migrate.redirect import Ledger, redirected

    recorder = _Recorder(_C, steps)
    ledger = Ledger(script.parent, torch._C._get_privateuse1_backend_name())
    _C.capture_begin()
    register_optimizer_step_post_hook(recorder.after_step)
    modules.register_module_forward_pre_hook(recorder.before_module)
    modules.register_module_forward_hook(recorder.after_module, always_call=True)
    crash = None
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.parent))
    try:
        with redirected(ledger):
            runpy.run_path(str(script), run_name="__main__")
    except _Enough:
        pass
    except SystemExit as end:
        if end.code not in (None, 0):
            crash = f"the script ended with status {end.code}"
    except BaseException as error:  # noqa: BLE001  whatever a script may raise is a finding
        line = next((f"{f.filename}:{f.lineno}" for f in reversed(traceback.extract_tb(error.__traceback__))
                     if Path(f.filename) == script), "")  # fmt: skip
        crash = f"{type(error).__name__}: {error}" + (f", at {line}" if line else "")
    recorder.launches += _C.capture_launches()
    report = dict(torchport.report())
    return {
        "programs": _C.capture_programs(),
        "launches": recorder.launches,
        "marks": recorder.marks,
        "report": report,
        "redirections": [[where, line, what, to, n] for (where, line, what, to), n in ledger.entries.items()],
        "precision": torch.get_float32_matmul_precision(),
        "crash": crash,
    }


def main(out: str, steps: str, script: str, *arguments: str) -> int:
    capture = record(Path(script).resolve(), list(arguments), int(steps))
    part = f"{out}.part"
    Path(part).write_text(json.dumps(capture, default=str), encoding="utf-8")
    os.replace(part, out)
    return 0


if __name__ == "__main__":
    status = main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(status)  # threads of the script's own must not keep the check waiting
