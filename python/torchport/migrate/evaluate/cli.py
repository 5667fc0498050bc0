"""`torchport eval`: from a plan to a decision."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

app = typer.Typer(
    no_args_is_help=True, help="Decide whether to move a workload: plan, seal, measure, decide, re-check."
)
out = Console(soft_wrap=True, width=None if sys.stdout.isatty() else 200)

Folder = Annotated[Path, typer.Argument(help="The evaluation folder.")]
By = Annotated[str, typer.Option("--by", help="Role that does this.")]
StageName = Annotated[str, typer.Option("--stage", help="baseline, port or optimised.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON instead of text.")]


@contextmanager
def reported() -> Iterator[None]:
    """Turns an EvalError into a message and exit status 2; a missing package into what to install."""
    try:
        from torchport.migrate.evaluate.errors import EvalError
        from torchport.migrate.evaluate.plan import Plan  # noqa: F401  the first module that needs pydantic
    except ModuleNotFoundError as error:
        raise _quit(
            f"[torchport eval] must find the package {error.name}, got none. Try: pip install 'torchport[eval]'"
        ) from error
    try:
        yield
    except EvalError as error:
        raise _quit(str(error)) from error
    except OSError as error:  # a full disk, a folder that may not be written
        raise _quit(f"[torchport eval] must be able to read and write its folder, got {error}") from error


def _quit(message: str, status: int = 2) -> typer.Exit:
    Console(stderr=True, soft_wrap=True).print(message, markup=False, highlight=False)
    return typer.Exit(status)


def _say(text: str) -> None:
    out.print(text, markup=False, highlight=False)


def today() -> date:
    """The day in UTC, as the log counts."""
    return datetime.now(UTC).date()


@app.command()
def init(folder: Folder) -> None:
    """Write plan.toml and prices.toml, a comment at every field."""
    with reported():
        from torchport.migrate.evaluate.template import init as write

        for path in write(folder):
            _say(f"wrote {path}")
        _say(f"next: replace what stands as REPLACE, then torchport eval seal {folder}")


@app.command()
def seal(folder: Folder, by: By = "owner") -> None:
    """Fix the plan, the prices and the workload's data before anything is measured."""
    with reported():
        from torchport.migrate.evaluate.writer import seal as fix

        entry = fix(folder, by, today())
        _say(f"sealed as {entry.id}: plan {entry.data['plan_sha256'][:16]}, prices {entry.data['prices_sha256'][:16]}")


@app.command()
def amend(folder: Folder, reason: Annotated[str, typer.Option(help="Why; shown for ever.")], by: By = "owner") -> None:
    """Put a changed plan or changed prices in force; the change stays on record."""
    with reported():
        from torchport.migrate.evaluate.writer import amend as change

        entry = change(folder, by, reason, today())
        for c in entry.data["changes"]:
            _say(f"{c['file']} {c['field']}: {c['sealed']!r} to {c['present']!r}")
        _say(f"amended as {entry.id}, after {entry.data['measurements_before']} measurements")


@app.command()
def change(
    folder: Folder,
    stage: StageName,
    what: Annotated[str, typer.Option(help="What was changed.")] = "",
    rule: Annotated[str, typer.Option(help="Rule of torchport scan, if any.")] = "",
    effect: Annotated[str, typer.Option(help="Why: fails, slow, numerics or operations.")] = "",
    log: Annotated[Path | None, typer.Option("--from", help="Change log of torchport port (JSON).")] = None,
) -> None:
    """Enter a change, or all of a port's change log, in a stage's ledger."""
    with reported():
        from torchport.migrate.evaluate.changes import add_log
        from torchport.migrate.evaluate.errors import EvalError
        from torchport.migrate.evaluate.writer import add_change

        if bool(what) == bool(log):
            raise EvalError("eval change", "be given either --what or --from", "both" if what else "none")
        found = add_log(folder, stage, log) if log else [add_change(folder, stage, what, rule=rule, effect=effect)]
        _say(f"{len(found)} changes in the ledger of {stage}: {found[0].id} to {found[-1].id}")


@app.command()
def hours(
    folder: Folder,
    stage: StageName,
    hours: Annotated[float, typer.Option(help="Engineer hours.")],
    what: Annotated[str, typer.Option(help="On what.")],
    role: Annotated[str, typer.Option(help="Role, not a person's name.")] = "engineer",
) -> None:
    """Enter engineer hours in a stage's ledger."""
    with reported():
        from torchport.migrate.evaluate.writer import add_hours

        _say(f"{add_hours(folder, stage, hours, what, role).id}: {hours:g} hours in the ledger of {stage}")


@app.command()
def answer(
    folder: Folder,
    criterion: Annotated[str, typer.Argument(help="Id of a criterion with measure = answer.")],
    value: Annotated[float, typer.Option(help="The value: 1 yes, 0 no, or as the criterion says.")],
    evidence: Annotated[str, typer.Option(help="Address, ticket, or file in the folder.")],
    by: By = "owner",
) -> None:
    """Answer a criterion that nothing measures, with evidence."""
    with reported():
        from torchport.migrate.evaluate.writer import add_answer

        _say(f"{add_answer(folder, criterion, value, evidence, by).id}: {criterion} = {value:g}")


@app.command()
def measures() -> None:
    """List what a criterion may measure."""
    with reported():
        from torchport.migrate.evaluate.measures import ANSWER, describe

        for name, text in {**describe(), ANSWER: "A person's answer with evidence (torchport eval answer)."}.items():
            _say(f"{name:26} {text}")


@app.command()
def run(
    folder: Folder,
    stage: Annotated[list[str], typer.Option("--stage", help="Stage to measure; several are interleaved (A B B A).")],
    starts: Annotated[
        int | None, typer.Option(min=1, help="Starts of each; else those that the plan still lacks.")
    ] = None,
) -> None:
    """Measure stages: every start is stored before the next one begins."""
    with reported():
        from torchport.migrate.evaluate.run import run as measure

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task("starting", total=None)

            def show(what: str, done: int, total: int) -> None:
                bar.update(task, description=what, completed=done, total=total)

            evidence = measure(folder, stage, starts, show)
        _say(f"{len(evidence)} starts recorded: {evidence[0]} to {evidence[-1]}")


@app.command("import")
def import_(
    folder: Folder,
    file: Annotated[Path, typer.Argument(help="JSON of vllm bench serve, GuideLLM, AIPerf or torchport check.")],
    stage: StageName,
    device: Annotated[str, typer.Option(help="Device that it was measured on.")] = "unknown",
    emulated: Annotated[bool | None, typer.Option(help="Whether that device was emulated.")] = None,
    framework: Annotated[str | None, typer.Option(help="Framework and version.")] = None,
) -> None:
    """Take in a result of another tool."""
    with reported():
        from torchport.migrate.evaluate.ingest import ingest

        said = {"device": device, "emulated": emulated, "framework": framework}
        _say(
            f"{ingest(folder, stage, file, {k: v for k, v in said.items() if v is not None}).id}: {file.name} taken in"
        )


@app.command()
def verify(
    folder: Folder, head: Annotated[str, typer.Option(help="Head of the log that someone noted earlier.")] = ""
) -> None:
    """Check the log and every file; name what was tampered with (exit status 1)."""
    with reported():
        from torchport.migrate.evaluate.folder import load_folder

        evaluation = load_folder(folder)
        found = list(evaluation.findings)
        if head and head not in {e.hash for e in evaluation.entries}:
            found.append(f"chain.jsonl: does not hold the noted head {head}")
        for line in found:
            _say(line)
        if found:
            raise _quit(f"{len(found)} differences from what was recorded", 1)
        last = evaluation.entries[-1].hash if evaluation.entries else "none"
        _say(f"{len(evaluation.entries)} entries and every file as recorded; head {last}")


@app.command()
def status(folder: Folder, as_json: AsJson = False) -> None:
    """Say where the evaluation stands: seal, amendments, ledgers, what is missing, tampering."""
    with reported():
        from torchport.migrate.evaluate.status import status as state

        found = state(folder)
        if as_json:
            print(json.dumps(found, indent=2))
            return
        for name in ("title", "sealed", "head", "decision"):
            _say(f"{name:12} {found[name]}")
        for a in found["amendments"]:
            _say(
                f"amendment    {a['id']} {a['reason']} ({len(a['changes'])} changes, after {a['measurements_before']} measurements)"
            )
        columns = ("stage", "starts", "counted", "wanted", "changes", "hours", "failures")
        _table(columns, [[str(row[c]) for c in columns] for row in found["stages"]])
        for line in found["unanswered"]:
            _say(f"unanswered   {line}")
        for line in found["tampered"]:
            _say(f"TAMPERED     {line}")
        if found["tampered"]:
            raise typer.Exit(1)


@app.command()
def cost(folder: Folder, stage: StageName = "port", as_json: AsJson = False) -> None:
    """Show cost per usable result, value, break-even and sensitivity of a stage as measured so far."""
    with reported():
        from torchport.migrate.evaluate.analysis import Analysis
        from torchport.migrate.evaluate.errors import EvalError
        from torchport.migrate.evaluate.folder import load_folder
        from torchport.migrate.evaluate.prices import check_prices

        evaluation = load_folder(folder)
        evaluation.check()
        plan = evaluation.plan
        check_prices(evaluation.prices, plan.evaluation.currency, plan.cost.max_price_age_days, today())
        if stage not in plan.stages:
            raise EvalError("eval cost", f"name a stage of the plan: {', '.join(plan.stages)}", stage)
        value = Analysis(evaluation, stage).value
        if value is None:
            raise EvalError(
                "eval cost", "have counted starts of baseline and this stage", "none", f"torchport eval run {folder}"
            )
        if as_json:
            print(json.dumps(value, indent=2))
            return
        for key in ("cost_per_usable", "month_cost", "net", "break_even_month", "p_net_positive"):
            _say(f"{key:18} {value[key]}")
        rows = [
            [r["figure"], f"{r['at_low']:,.2f}", f"{r['at_high']:,.2f}", f"{r['swing']:,.2f}"] for r in value["tornado"]
        ]
        _table(("figure", "net value at its low", "at its high", "swing"), rows)


@app.command()
def decide(folder: Folder, as_json: AsJson = False) -> None:
    """Decide from the sealed rules, or reproduce the decision that is there."""
    with reported():
        from torchport.migrate.evaluate.decide import decide as judge
        from torchport.migrate.evaluate.writer import opened

        with opened(folder) as evaluation:
            decision, entry, again = judge(evaluation, today())
        if as_json:
            print(json.dumps({"id": entry.id, "reproduced": again, **decision}, indent=2))
            return
        _say(f"{'reproduced' if again else 'decided'} {entry.id}: {decision['outcome']} ({decision['stage']})")
        _say(f"because {decision['because']}")
        _say(f"record {folder / entry.data['record']}, valid until {decision['expires']}")
        for line in decision["not_shown"]:
            _say(f"not shown: {line}")


@app.command()
def recheck(
    folder: Folder,
    prices: Annotated[Path | None, typer.Option(help="A price file of today.")] = None,
    volume: Annotated[float | None, typer.Option(min=1e-9, help="Results a month now.")] = None,
    score: Annotated[float | None, typer.Option(help="Mean quality score now.")] = None,
    release: Annotated[list[str] | None, typer.Option(help="package=version, as released now.")] = None,
    region: Annotated[list[str] | None, typer.Option(help="Region in which the target is offered now.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say which re-open triggers have fired (exit status 1 when any has)."""
    with reported():
        from torchport.migrate.evaluate.errors import EvalError
        from torchport.migrate.evaluate.folder import load_folder
        from torchport.migrate.evaluate.prices import check_prices, load_prices
        from torchport.migrate.evaluate.recheck import recheck as check

        evaluation = load_folder(folder)
        evaluation.check()
        decision = evaluation.decision
        if decision is None:
            raise EvalError(
                "eval recheck", "be given a folder with a decision", "none", f"torchport eval decide {folder}"
            )
        if wrong := [r for r in release or [] if "=" not in r]:
            raise EvalError("eval recheck", "be given releases as package=version", ", ".join(wrong))
        now = load_prices(prices) if prices else None
        if now:
            check_prices(now, evaluation.plan.evaluation.currency, evaluation.plan.cost.max_price_age_days, today())
        rows = check(decision, today(), now, volume, score, dict(r.split("=", 1) for r in release or []), region)
        if as_json:
            print(json.dumps(rows, indent=2))
        else:
            words = {True: "FIRED", False: "quiet", None: "unknown"}
            _table(("trigger", "state", "why"), [[r["trigger"], words[r["fired"]], r["why"]] for r in rows])
        if any(r["fired"] for r in rows):
            raise typer.Exit(1)


@app.command()
def export(folder: Folder, file: Annotated[Path, typer.Option("--out", help="CSV file to write.")]) -> None:
    """Write the monthly cost of both platforms as FOCUS rows."""
    with reported():
        from torchport.migrate.evaluate import focus
        from torchport.migrate.evaluate.durable import write_atomic
        from torchport.migrate.evaluate.errors import EvalError
        from torchport.migrate.evaluate.folder import load_folder

        evaluation = load_folder(folder)
        evaluation.check()
        decision = evaluation.decision
        rows = focus.rows(evaluation.plan, evaluation.prices, decision, today()) if decision else []
        if not rows:
            raise EvalError("eval export", "be given a folder with a decision that rests on cost", "none")
        write_atomic(file, focus.to_csv(rows))
        _say(f"wrote {len(rows)} rows to {file}")


def _table(columns: tuple[str, ...], rows: list[list[Any]]) -> None:
    table = Table()
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    out.print(table)
