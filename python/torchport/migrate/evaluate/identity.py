"""Who and what was measured: the host as MLPerf's system description names it, and what the workload says of itself."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from torchport.migrate.evaluate.durable import digest_file
from torchport.migrate.evaluate.errors import EvalError
from torchport.migrate.evaluate.measurement import UNKNOWN, Identity
from torchport.migrate.evaluate.plan import Plan
from torchport.migrate.evaluate.writer import workload_files

REPORTED = ("device", "emulated", "framework", "plugin", "precision", "software")  # the workload's own words
DECLARED = (
    "region",
    "zone",
    "purchase",
    "framework",
    "plugin",
    "precision",
    "source_revision",
)  # the plan's, where it has none


def system() -> dict[str, str | int | float]:
    """The host, under the names of MLPerf's system_desc (mlcommons/policies, submission_rules), as far as a probe sees."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "number_of_nodes": 1,
        "host_processor_model_name": _processor(),
        "host_processor_core_count": os.cpu_count() or 0,
        "host_processor_cores_usable": len(os.sched_getaffinity(0)),
        "host_memory_capacity": f"{memory / 2**30:.1f} GiB",
        "host_storage_capacity": f"{shutil.disk_usage('/').total / 2**30:.0f} GiB",
        "operating_system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "load_average_1min": round(os.getloadavg()[0], 2),
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    found = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return found or platform.processor() or UNKNOWN


def revision(cwd: Path) -> str:
    """Commit of the working directory, marked when files differ from it; unknown outside git."""
    try:
        commit = subprocess.run(["git", "-C", cwd, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
        state = subprocess.run(
            ["git", "-C", cwd, "status", "--porcelain", "--untracked-files=no"],
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:  # no git on this machine
        return UNKNOWN
    return commit.stdout.strip() + ("+changed" if state.stdout.strip() else "") if commit.returncode == 0 else UNKNOWN


def described(folder: Path, name: str) -> dict[str, str | int | float]:
    """The plain fields of an MLPerf system description; what is nested stays in the file, which is sealed."""
    if not name:
        return {}
    try:
        raw = json.loads((folder / name).read_text(encoding="utf-8"))
    except ValueError as error:
        raise EvalError(name, "be the JSON of an MLPerf system description", error) from error
    if not isinstance(raw, dict):
        raise EvalError(name, "be a JSON object", type(raw).__name__)
    return {k: v for k, v in raw.items() if isinstance(v, str | int | float) and v != ""}


def from_report(report: dict[str, Any]) -> dict[str, Any]:
    """What a report of TorchPort's device says: on the CPU's plugin the device is an emulated one."""
    if not report.get("open"):
        return {}
    return {"device": report["device"], "emulated": report["platform"] == "cpu", "plugin": Path(report["plugin"]).name}


def installed(plan: Plan, stage: str) -> dict[str, str]:
    """Versions of the packages that matter, where the stage runs on this very interpreter; else nobody here knows them."""
    if plan.stages[stage].command[0] != "{python}":
        return {}
    found = {}
    for name in ("torch", "torchport", *plan.triggers.releases):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def identify(folder: Path, plan: Plan, stage: str, command: list[str], reported: dict[str, Any]) -> Identity:
    """Puts together what the plan declares, the probe sees and the workload reports; the rest is unknown."""
    chosen = plan.stages[stage]
    here = installed(plan, stage) if command else {}  # an imported result has no command: it was made elsewhere
    software = {**here, **reported.get("software", {})}
    known = {"framework": f"torch {software['torch']}"} if "torch" in software else {}
    reported = {**known, **reported, "software": software}
    data = {name: digest_file(folder / name) for name in workload_files(plan)}
    declared = {k: v for k, v in chosen.identity.items() if k in DECLARED}
    told = {k: reported[k] for k in REPORTED if reported.get(k) is not None}
    declared.setdefault("source_revision", revision(folder / chosen.cwd))
    return Identity(
        model=plan.workload.model,
        weights_sha256=data.pop(plan.workload.weights, None) or reported.get("weights_sha256") or UNKNOWN,
        data_sha256=data,
        flags={**chosen.env, **{str(k): str(v) for k, v in reported.get("flags", {}).items()}},
        command=command,
        system={
            **system(),
            **described(folder, chosen.system_desc),
            **{k: v for k, v in chosen.identity.items() if k not in DECLARED},
        },
        **{**declared, **told},
    )
