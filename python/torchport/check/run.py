"""The check of a script: run it in emulation, build its step, compile for every target, judge."""

from __future__ import annotations

import datetime
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torchport.check.compiler import CompileResult, Job, bundle_file, compile_many
from torchport.check.script import STEPS
from torchport.check.step import Step, build, segments
from torchport.check.targets import Target
from torchport.check.verdict import Finding, Verdict, judge, run_findings, suspects

SCHEMA = "torchport.check/1"
RUN_S = 600.0
SINGLE = 12  # programs of a refused step that are tried one by one


@dataclass
class Check:
    """A script judged for every target. verdicts is empty when no step could be captured."""

    script: str
    arguments: list[str]
    findings: list[Finding]
    verdicts: list[Verdict] = field(default_factory=list)
    step: Step | None = None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        step = self.step
        return {
            "schema": SCHEMA,
            "date": datetime.date.today().isoformat(),
            "script": self.script,
            "arguments": self.arguments,
            "step": None if step is None else {
                "kind": step.kind, "programs": len(step.programs), "launches": sum(step.launches.values()),
                "matrix_flops": dict(step.flops), "argument_bytes": step.argument_bytes,
                "result_bytes": step.result_bytes, "donated_bytes": step.donated_bytes, "peak_bytes": step.peak_bytes,
                "samples": step.samples, "tokens": step.tokens,
            },
            "findings": [vars(f) for f in self.findings],
            "targets": [v.as_dict() for v in self.verdicts],
        }  # fmt: skip

    def failed(self, fail_on: Sequence[str]) -> bool:
        """compile, fit, fallback, recompile, crash: whether one of these was found. A crash always counts."""
        codes = {f.code for f in self.findings}
        return (
            "crash" in codes
            or self.step is None
            or bool(codes & set(fail_on))
            or ("compile" in fail_on and any(v.compiles is False for v in self.verdicts))
            or ("fit" in fail_on and any(v.fits is False for v in self.verdicts))
        )


def capture(script: Path, arguments: Sequence[str], steps: int = STEPS, timeout_s: float = RUN_S) -> dict[str, Any]:
    """Runs the script in a process of its own; how it ended is in `crash`, never an exception."""
    with tempfile.TemporaryDirectory(prefix="torchport-") as folder:
        out = Path(folder) / "capture.json"
        command = [sys.executable, "-m", "torchport.check.script", str(out), str(steps), str(script), *arguments]
        environment = os.environ | {"TORCHPORT_DEVICE": "tpu", "TORCHPORT_PLATFORM": "cpu"}
        # What the script prints goes to file descriptor 2: stdout is the check's, and sys.stderr may be no real file.
        process = subprocess.Popen(command, env=environment, stdout=2, start_new_session=True)
        try:
            status = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return _nothing(f"{steps} steps took longer than {timeout_s:.0f} s in emulation")
        if not out.is_file():
            how = signal.Signals(-status).name if status < 0 else f"status {status}"
            return _nothing(f"the script's process ended by {how}")
        return json.loads(out.read_text(encoding="utf-8"))


def _nothing(crash: str) -> dict[str, Any]:
    return {"programs": [], "launches": [], "marks": {"train": [], "infer": []}, "report": {}, "redirections": [],
            "precision": "highest", "crash": crash}  # fmt: skip


def check_script(
    script: Path,
    arguments: Sequence[str],
    targets: Sequence[Target],
    steps: int = STEPS,
    bundle: Path | None = None,
    progress: Callable[[str], None] = lambda line: None,
    **limits: Any,
) -> Check:
    """limits: timeout_s and memory_bytes of compile_many. bundle: a folder that receives every target's program."""
    progress(f"running {script.name} in emulation, {steps} steps")
    captured = capture(script, arguments, steps)
    kind, _, ends = segments(captured)
    check = Check(str(script), list(arguments), run_findings(captured, ends))
    try:
        step = check.step = build(captured)
    except ValueError as error:
        if not captured["crash"]:
            check.findings.append(Finding("no_step", "error", str(error)))
        return check
    progress(f"one step ({kind}): {sum(step.launches.values())} launches of {len(step.programs)} programs")
    jobs = [Job(t, step.text, bundle=bundle_file(bundle, t, step.text)) for t in targets]
    results = compile_many(jobs, progress=progress, **limits)
    for wanted, result in zip(targets, results, strict=True):
        own = _single(step, wanted, result, progress, limits)
        check.verdicts.append(judge(wanted, result, step, own, wanted.price))
    return check


def _single(step: Step, wanted: Target, result: CompileResult, progress: Callable[[str], None],
            limits: dict[str, Any]) -> dict[int, CompileResult]:  # fmt: skip
    """Which programs of a refused step are refused by themselves: the likeliest, one by one."""
    if result.outcome != "refused":
        return {}
    likely = [step.programs.index(p) for p in suspects(step, result.words)] or list(range(len(step.programs)))
    likely = likely[:SINGLE]
    progress(f"{wanted.name}: looking for the op among {len(likely)}")
    jobs = [Job(wanted, step.programs[i].text, hlo=False) for i in likely]
    return dict(zip(likely, compile_many(jobs, **limits), strict=True))
