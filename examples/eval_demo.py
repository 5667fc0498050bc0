"""A whole evaluation in one go: scan, port, test, seal, measure three stages, decide, report, decide again from a copy.

The application is examples/cuda_service, the plan examples/eval_demo.toml. Everything is written below --out; nothing
leaves the machine. Exit status 0 when every step did what it must, 1 with the step that did not.

    python examples/eval_demo.py --out out/eval-demo
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from torchport.migrate.evaluate import load_folder
from torchport.migrate.evaluate.plan import Plan, PriceFile
from torchport.migrate.evaluate.template import render

HERE = Path(__file__).resolve().parent
APP, PLAN = HERE / "cuda_service", HERE / "eval_demo.toml"
CPU = {"TICKETS_DEVICE": "cpu", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
TPU = {"TICKETS_DEVICE": "tpu"}
HOST_HOUR = 0.10  # EUR; see PRICE_SOURCE
PRICE_SOURCE = "examples/eval_demo.py: made up, and the same for both sides, since both are this machine"
console = Console(soft_wrap=True)


class Failed(Exception):
    """A step that did not do what it must."""


def say(text: str) -> None:
    """A line of progress."""
    console.print(text, markup=False, highlight=False)


def call(*command: object, cwd: Path | None = None, env: dict[str, str] | None = None, status: int = 0) -> str:
    """Runs a command; returns what it printed; raises Failed on another exit status than the expected one."""
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env={**os.environ, **(env or {})}, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    if done.returncode != status:
        raise Failed(f"{' '.join(map(str, command))}: exit status {done.returncode}\n{done.stdout[-4000:]}")
    return done.stdout


def torchport(*arguments: object, status: int = 0) -> str:
    """The command line, as a user types it."""
    say(f"$ torchport {' '.join(map(str, arguments))}")
    return call(sys.executable, "-m", "torchport.cli", *arguments, status=status)


def scan_and_port(out: Path, service: Path) -> None:
    """Scan and port; the diff that was shown applies, and gives what --apply gives; porting again changes nothing."""
    torchport("scan", APP, "--format", "json", "--output", out / "scan.json")
    plain = out / "patched"
    shutil.copytree(APP, plain)
    shutil.copytree(APP, service)
    (out / "port.diff").write_text(torchport("port", plain).partition("\nby hand:")[0] + "\n")
    torchport("port", service, "--apply", "--log", out / "port.json")
    # Inside a repository git apply would look for the paths there; the ceiling keeps it in this folder.
    call("git", "apply", out / "port.diff", cwd=plain, env={"GIT_CEILING_DIRECTORIES": str(out)})
    for path in service.rglob("*"):
        if path.is_file() and path.read_bytes() != (plain / path.relative_to(service)).read_bytes():
            raise Failed(f"the diff gives another {path.relative_to(service)} than --apply")
    changes = json.loads((out / "port.json").read_text())["changes"]
    torchport("port", service, "--apply", "--log", out / "again.json")
    if json.loads((out / "again.json").read_text())["changes"]:
        raise Failed("porting twice changed something the second time")
    say(f"  {len(changes)} changes; the diff applies; porting again changes nothing")


def test(folder: Path, service: Path) -> None:
    """The service's own tests, on both devices; their output is the evidence of a gate."""
    lines = []
    for env in (TPU, CPU):
        say(f"$ TICKETS_DEVICE={env['TICKETS_DEVICE']} pytest")
        result = call(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", cwd=service, env=env).splitlines()[-1]
        lines.append(f"{env['TICKETS_DEVICE']}: {result}")
        say(f"  {lines[-1]}")
    (folder / "evidence").mkdir(exist_ok=True)
    (folder / "evidence" / "tests.txt").write_text("\n".join(lines) + "\n")


def write_plan(folder: Path) -> None:
    """plan.toml with its comments, prices of today, the tickets as requests."""
    plan = Plan.model_validate(tomllib.loads(PLAN.read_text()))
    (folder / "plan.toml").write_text(render(plan))
    rows = [
        {
            "id": name, "provider": "this machine", "sku": name, "region": "this machine", "purchase": "owned",
            "unit": "device-hour", "devices_per_unit": 1, "amount": HOST_HOUR, "seen": datetime.now(UTC).date(),
            "source": PRICE_SOURCE,
        }
        for name in ("host", "host-emulating")
    ]  # fmt: skip
    prices = PriceFile.model_validate({"currency": "EUR", "price": rows})
    (folder / "prices.toml").write_text(render(prices))
    tickets = [line.split("\t") for line in (APP / "data" / "tickets.tsv").read_text().splitlines()]
    requests = [
        {"id": f"t{n}", "body": {"texts": [text]}, "expected": [label]} for n, (label, text) in enumerate(tickets)
    ]
    (folder / "requests.jsonl").write_text("".join(json.dumps(row) + "\n" for row in requests))


OPTIMISED = (
    ("config.yaml", "compile: false", "compile: true"),
    ("service.py", 'mode="reduce-overhead" if ACCELERATOR.type == "cuda" else None', 'backend="torchport"'),
)


def optimise(folder: Path) -> None:
    """The optimised deployment: the port, compiled; two edits by hand."""
    shutil.copytree(folder / "service", folder / "service-optimised")
    for name, old, new in OPTIMISED:
        path = folder / "service-optimised" / name
        text = path.read_text()
        if text.count(old) != 1:
            raise Failed(f"{name} must hold {old!r} once")
        path.write_text(text.replace(old, new))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/eval-demo"))
    out = parser.parse_args().out.resolve()
    if out.exists():
        shutil.rmtree(out)
    folder = out / "evaluation"
    folder.mkdir(parents=True)
    service = folder / "service"

    begin = time.monotonic()
    scan_and_port(out, service)
    test(folder, service)
    port_hours = (time.monotonic() - begin) / 3600
    say("$ python train.py")
    say(f"  {call(sys.executable, 'train.py', '--out', folder / 'model.pt', cwd=service, env=CPU).splitlines()[-1]}")
    begin = time.monotonic()
    optimise(folder)
    optimise_hours = (time.monotonic() - begin) / 3600

    write_plan(folder)
    refused = torchport("eval", "run", folder, "--stage", "baseline", status=2)
    if "sealed plan" not in refused:
        raise Failed(f"measuring before sealing was refused for another reason: {refused}")
    say("  refused: the plan is not sealed yet")
    say(f"  {torchport('eval', 'seal', folder, '--by', 'service owner').strip()}")

    torchport("eval", "change", folder, "--stage", "port", "--from", out / "port.json")
    for name, _, new in OPTIMISED:
        torchport("eval", "change", folder, "--stage", "optimised", "--what", f"{name}: {new}", "--effect", "slow")
    torchport(
        "eval",
        "hours",
        folder,
        "--stage",
        "port",
        "--hours",
        f"{port_hours:.6f}",
        "--what",
        "scan, port and tests, timed",
    )
    torchport(
        "eval",
        "hours",
        folder,
        "--stage",
        "optimised",
        "--hours",
        f"{optimise_hours:.9f}",
        "--what",
        "two edits, timed",
    )
    torchport("eval", "answer", folder, "data", "--value", 1, "--evidence", "every process listens on loopback only")
    torchport("eval", "answer", folder, "tests", "--value", 1, "--evidence", "evidence/tests.txt")
    reports = "device_report of every start: programs, fallbacks with lines, waits; no profiler was tried"
    torchport("eval", "answer", folder, "debugging", "--value", 0.7, "--evidence", reports)

    say("  15 starts, interleaved; a few minutes")
    stages = [part for stage in ("baseline", "port", "optimised") for part in ("--stage", stage)]
    say(f"  {torchport('eval', 'run', folder, *stages).splitlines()[-1]}")
    say(torchport("eval", "status", folder))
    say(torchport("eval", "decide", folder))
    for lang in ("en", "fr"):
        torchport("eval", "report", folder, "--output", out / f"report-{lang}.html", "--lang", lang)
    torchport("eval", "verify", folder)
    say(torchport("kb", "import", out / "scan.json", out / "port.json", folder, "--db", out / "kb.db"))

    again = out / "elsewhere"
    shutil.copytree(folder, again)
    text = torchport("eval", "decide", again)
    first, second = load_folder(folder).decision, load_folder(again).decision
    if not text.startswith("reproduced") or first != second:
        raise Failed(f"the copy gives another decision: {text}")
    say(f"  {text.splitlines()[0]}")
    say(f"record {folder / load_folder(folder).decisions[-1].data['record']}\nreport {out / 'report-en.html'}")


if __name__ == "__main__":
    try:
        main()
    except Failed as failed:
        sys.exit(f"[eval demo] must go through every step, got: {failed}")
