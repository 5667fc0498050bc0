"""The eager mode of the process, and the report of what the device did."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable


def _core():
    import torchport

    return torchport._core()


class _Restore:
    """What a function that sets a mode returns: it is set already; leaving a `with` block puts the earlier one back."""

    def __init__(self, put_back: Callable[[str], None], before: str) -> None:
        self.put_back, self.before = put_back, before

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        self.put_back(self.before)


def _mode(get: Callable[[], str], put: Callable[[str], None], mode: str | None) -> str | _Restore:
    before = get()
    if mode is None:
        return before
    put(mode)
    return _Restore(put, before)


def eager_mode(mode: str | None = None) -> str | _Restore:
    """Set the eager mode ("strict" or "debug"), for good or for a `with` block; without an argument, return it."""
    return _mode(_core().eager_mode, _core().set_eager_mode, mode)


def random_mode(mode: str | None = None) -> str | _Restore:
    """Set whose random numbers the device gives, for good or for a `with` block; without an argument, return it.

    "device": its own, Philox counters, drawn on the device. "cpu": those of torch's CPU generator after the same seed, bit
    for bit, drawn on the host and copied: slow, for comparing a run with one on the CPU. Set it before torch.compile.
    """
    return _mode(_core().random_mode, _core().set_random_mode, mode)


class Report(dict):
    """The report: a dict that json.dumps takes, and readable text when printed."""

    def __str__(self) -> str:
        rows = [
            ("platform", self.get("platform", "not opened yet")),
            ("eager mode", self.get("mode")),
            ("random numbers", self.get("random")),
            ("programs compiled", f"{self.get('programs_compiled', 0)} in {self.get('compile_ms', 0):.0f} ms"),
            ("cache hits", self.get("cache_hits", 0)),
            ("launches", self.get("launches", 0)),
            ("host syncs", self.get("host_syncs", 0)),
        ]
        for m in self.get("memory", []):
            rows.append((f"device {m['device']}", f"{m['allocated_bytes']:,} B live, {m['peak_bytes']:,} B peak"))
        lines = ["TorchPort report"] + [f"  {key:<24} {value}" for key, value in rows]
        fallbacks = self.get("fallbacks", [])
        lines.append(f"  fallbacks to the CPU: {len(fallbacks)} ops, {sum(f['count'] for f in fallbacks)} calls")
        for f in sorted(fallbacks, key=lambda f: -f["count"]):
            lines.append(f"    {f['op']:<44} {f['count']:>7} x {f['bytes']:>13,} B {f['ms']:>10.1f} ms")
            lines += [f"        at {line}" for line in f.get("lines", [])]
        graphs = self.get("compile", {})
        if graphs.get("graphs"):
            lines.append(f"  torch.compile: {graphs['graphs']} graphs, {graphs['programs']} programs")
            for step in graphs["eager_steps"]:
                lines.append(f"    outside the programs: {step['op']} x {step['count']}: {step['why']}")
        recompiles = self.get("recompiles", [])
        if recompiles:
            lines.append(f"  recompiles: {len(recompiles)}")
            lines += [f"    {r if isinstance(r, str) else json.dumps(r)}" for r in recompiles]
        return "\n".join(lines)


def report() -> Report:
    """What the device has done so far: programs, cache, host syncs, fallbacks to the CPU, memory, recompiles."""
    got = Report(_core().report())
    # torch.compile's own module is imported by torch when it is used; until then there is nothing to add.
    compiler = sys.modules.get("torchport.compile")
    got["compile"] = compiler.ledger.as_dict() if compiler else {"graphs": 0, "programs": 0, "eager_steps": []}
    return got


def reset_report() -> None:
    """Start counting from zero."""
    _core().reset_report()
    if compiler := sys.modules.get("torchport.compile"):
        compiler.ledger.reset()


def write_report(path: str) -> None:
    """Write the report as JSON; a reader sees the old file or the whole new one."""
    folder = os.path.dirname(os.path.abspath(path))
    handle, part = tempfile.mkstemp(prefix=".torchport-", suffix=".json", dir=folder)
    try:
        with os.fdopen(handle, "w") as file:
            json.dump(report(), file, indent=1)
            file.write("\n")
        os.replace(part, path)
    except BaseException:
        os.unlink(part)
        raise


def write_report_at_exit(path: str, owner: int) -> None:
    """TORCHPORT_REPORT=path. A forked child runs the same exit handlers; the report is the parent's."""
    if os.getpid() != owner:
        return
    try:
        write_report(path)
    except OSError as err:
        print(f"[TORCHPORT_REPORT] must be a file that can be written, got {path!r}: {err}", file=sys.stderr)
