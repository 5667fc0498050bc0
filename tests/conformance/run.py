"""PyTorch's op database on the device against the CPU: every op, forward, backward, out=, in-place, its wrong calls.

python tests/conformance/run.py                         four samples of four dtypes (`make conformance`)
python tests/conformance/run.py --full                  all samples, twelve dtypes, wrong calls; goes on where it ended
python tests/conformance/run.py --match cumsum --list-failures
python tests/conformance/run.py --read conformance.jsonl --list-failures --list-fallbacks
"""

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from conformance.causes import Causes
from conformance.pool import Pool, Progress, Task
from conformance.record import Record, identity, read
from conformance.summary import Summary, caused, fallback_table, grouped_failures, strides_line, uncut

MODES = ("forward", "backward", "out", "inplace")
ERRORS = "errors"
DTYPES = "float32,int64,bfloat16,bool"
ALL_DTYPES = "float32,int64,bfloat16,bool,complex64,float64,float16,int32,uint8,int8,int16,complex128"


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="twelve dtypes, all samples, wrong calls too, resumed")
    parser.add_argument("--device", default=os.environ.get("TORCHPORT_TEST_DEVICE", "tpu"), help="device under test")
    parser.add_argument("--dtypes", help=f"comma-separated; default {DTYPES}, with --full all twelve")
    parser.add_argument("--modes", help=f"comma-separated; default {','.join(MODES)}, with --full also {ERRORS}")
    parser.add_argument("--samples", type=int, help="samples an op, dtype and mode, 0 for all; default 4, --full 0")
    parser.add_argument("--budget", type=float, default=20, help="seconds after which a case begins no further sample")
    parser.add_argument("--match", default="", help="only ops whose name contains this")
    parser.add_argument("--ops", default="", help="only these ops, comma-separated full names")
    parser.add_argument("--jobs", type=int, default=2, help="worker processes")
    parser.add_argument("--timeout", type=float, default=60, help="seconds a case may take")
    parser.add_argument("--programs", type=Path, help="folder that receives the StableHLO of every program launched")
    parser.add_argument("--resume", action="store_true", help="keep the rows of an earlier run of the same build")
    parser.add_argument("--out", type=Path, default=Path("conformance.jsonl"), help="one JSON row a case")
    parser.add_argument("--read", type=Path, help="report on the rows of an earlier run instead of running")
    parser.add_argument("--min-agree", type=float, default=95, help="exit 1 below this percentage of cases")
    parser.add_argument("--min-errors", type=float, default=0, help="exit 1 below this percentage of wrong calls")
    parser.add_argument("--max-fallback", type=float, default=25, help="exit 1 above this percentage of ops")
    parser.add_argument("--causes", action="store_true", help="list each failure's cause; exit 1 where one has none")
    parser.add_argument("--list-failures", action="store_true", help="print failures grouped by message")
    parser.add_argument("--list-fallbacks", action="store_true", help="print the aten ops that fell back")
    args = parser.parse_args()
    args.dtypes = (args.dtypes or (ALL_DTYPES if args.full else DTYPES)).split(",")
    args.modes = (args.modes or ",".join([*MODES, ERRORS] if args.full else MODES)).split(",")
    args.samples = (0 if args.full else 4) if args.samples is None else args.samples
    args.resume |= args.full
    return args


def tasks(args: argparse.Namespace) -> list[Task]:
    """An op and dtype each, one dtype after another so that a run cut short has seen every op; wrong calls first.

    Ops that the database lacks come from tests/ops/cases.py.
    """
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    from ops.cases import CASES

    if unknown := set(args.modes) - {*MODES, ERRORS}:
        raise SystemExit(f"[--modes] must be of {', '.join([*MODES, ERRORS])}, got {', '.join(sorted(unknown))}")
    if unknown := {name for name in args.dtypes if not isinstance(getattr(torch, name, None), torch.dtype)}:
        raise SystemExit(f"[--dtypes] must be names of torch's dtypes, got {', '.join(sorted(unknown))}")
    names = set(filter(None, args.ops.split(",")))
    if unknown := names - {op.full_name for op in op_db} - {case.name for case in CASES}:
        raise SystemExit(
            f"[--ops] must be in PyTorch's op database or tests/ops/cases.py, got {', '.join(sorted(unknown))}"
        )
    chosen = {op.full_name: op for op in op_db if args.match in op.full_name and (not names or op.full_name in names)}
    modes = [mode for mode in args.modes if mode != ERRORS]
    own = [case for case in CASES if case.custom and args.match in case.name and (not names or case.name in names)]
    wrong = [Task(name, "any", [ERRORS]) for name, op in chosen.items() if op.error_inputs_func is not None]
    right = [
        Task(name, dtype, modes)
        for dtype in args.dtypes
        for name, op in chosen.items()
        if getattr(torch, dtype) in op.supported_dtypes("cpu")
    ]
    right += [
        Task(case.name, dtype, modes) for case in own for dtype in args.dtypes if getattr(torch, dtype) in case.dtypes
    ]
    return (wrong if ERRORS in args.modes else []) + (right if modes else [])


def execute(args: argparse.Namespace) -> list[dict]:
    """Runs the tasks that no earlier run has done and writes a row a case as it comes."""
    os.environ["TORCHPORT_TEST_DEVICE"] = args.device
    work = tasks(args)
    if not work:
        raise SystemExit("no op matches")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    for old in args.out.parent.glob(f"{args.out.name}.*.log"):
        old.unlink()
    head = identity(args.device) | {"samples": args.samples, "budget": args.budget, "timeout": args.timeout}
    with Record(args.out, head, args.resume) as record:
        left = [task for task in work if not record.has(task)]
        if len(left) < len(work):
            print(f"{args.out}: {len(work) - len(left)} of {len(work)} tasks are done, going on", file=sys.stderr)
        progress = Progress(len(left))

        def report(row: dict) -> None:
            progress.count(row["result"])
            record.add(row)

        def finished(task: Task) -> None:
            progress.step()
            record.done(task)

        programs = str(args.programs.resolve()) if args.programs else None
        options = {"samples": args.samples, "budget": args.budget, "programs": programs}
        Pool(args.jobs, args.timeout, options, args.out, report, finished).run(left)
        return record.rows


def main() -> int:
    """Runs or reads, prints, and says by the exit code whether the thresholds hold."""
    args = arguments()
    rows = read(args.read).rows if args.read else execute(args)
    if args.list_fallbacks:
        print(fallback_table(rows))
    if args.list_failures:
        print(grouped_failures(rows))
    unexplained = 0
    if args.causes:
        text, unexplained = caused(rows, Causes.load(), complete=not (args.match or args.ops))
        print(text)
    wrong = Summary.of([row for row in rows if row["mode"] == ERRORS])
    summary = Summary.of([row for row in rows if row["mode"] != ERRORS])
    print(
        f"{summary.ops_right} of {summary.ops} ops wholly right; {summary.skipped} cases skipped (refused by the CPU)"
    )
    print(uncut(rows))
    print(strides_line(rows))
    if wrong.cases:
        print(f"wrong calls: {wrong.agree} of {wrong.cases} raise the CPU's type ({wrong.agree_text} %)")
    print(summary.line())
    enough = summary.agree_percent >= args.min_agree or not summary.cases
    strict = wrong.agree_percent >= args.min_errors or not wrong.cases
    return int(not (enough and strict and summary.fallback_percent <= args.max_fallback and not unexplained))


if __name__ == "__main__":
    sys.exit(main())
