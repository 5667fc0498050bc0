"""PyTorch's op database on the device against the CPU: every op, first samples, forward, backward, out= and in-place.

python tests/conformance/run.py                         the whole run (`make conformance`)
python tests/conformance/run.py --match cumsum --list-failures
python tests/conformance/run.py --read conformance.jsonl --list-failures --list-fallbacks
"""

import argparse
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from conformance.pool import Pool, Progress, Task
from conformance.summary import Summary, fallback_table, grouped_failures

MODES = ("forward", "backward", "out", "inplace")


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default=os.environ.get("TORCHPORT_TEST_DEVICE", "tpu"), help="device under test")
    parser.add_argument("--dtypes", default="float32,int64,bfloat16,bool", help="comma-separated")
    parser.add_argument("--modes", default=",".join(MODES), help="comma-separated")
    parser.add_argument("--samples", type=int, default=4, help="samples an op, dtype and mode")
    parser.add_argument("--match", default="", help="only ops whose name contains this")
    parser.add_argument("--ops", default="", help="only these ops, comma-separated full names")
    parser.add_argument("--jobs", type=int, default=2, help="worker processes")
    parser.add_argument("--timeout", type=float, default=60, help="seconds a case may take")
    parser.add_argument("--out", type=Path, default=Path("conformance.jsonl"), help="one JSON row a case")
    parser.add_argument("--read", type=Path, help="report on the rows of an earlier run instead of running")
    parser.add_argument("--min-agree", type=float, default=95, help="exit 1 below this percentage of cases")
    parser.add_argument("--max-fallback", type=float, default=25, help="exit 1 above this percentage of ops")
    parser.add_argument("--list-failures", action="store_true", help="print failures grouped by message")
    parser.add_argument("--list-fallbacks", action="store_true", help="print the aten ops that fell back")
    return parser.parse_args()


def tasks(args: argparse.Namespace) -> list[Task]:
    """An op and dtype each, in the database's order."""
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    names = set(filter(None, args.ops.split(",")))
    if unknown := names - {op.full_name for op in op_db}:
        raise SystemExit(f"--ops names {sorted(unknown)}, which PyTorch's op database does not have")
    chosen = [op for op in op_db if args.match in op.full_name and (not names or op.full_name in names)]
    seen: dict[str, None] = dict.fromkeys(op.full_name for op in chosen)
    by_name = {op.full_name: op for op in chosen}
    dtypes = args.dtypes.split(",")
    return [
        Task(name, dtype, args.modes.split(","))
        for name in seen
        for dtype in dtypes
        if getattr(torch, dtype) in by_name[name].supported_dtypes("cpu")
    ]


def execute(args: argparse.Namespace) -> list[dict]:
    """Runs the tasks and writes a row a case as it comes."""
    os.environ["TORCHPORT_TEST_DEVICE"] = args.device
    work, rows = tasks(args), []
    if not work:
        raise SystemExit("no op matches")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    for old in args.out.parent.glob(f"{args.out.name}.*.log"):
        old.unlink()
    progress = Progress(len(work))
    with open(args.out, "w", buffering=1) as file:

        def report(row: dict) -> None:
            rows.append(row)
            progress.count(row["result"])
            file.write(json.dumps(row) + "\n")

        pool = Pool(args.jobs, args.timeout, args.samples, args.out, report, lambda task: progress.step())
        pool.run(work)
    return rows


def main() -> int:
    """Runs or reads, prints, and says by the exit code whether the thresholds hold."""
    args = arguments()
    rows = [json.loads(line) for line in args.read.read_text().splitlines()] if args.read else execute(args)
    if args.list_fallbacks:
        print(fallback_table(rows))
    if args.list_failures:
        print(grouped_failures(rows))
    summary = Summary.of(rows)
    print(
        f"{summary.ops_right} of {summary.ops} ops wholly right; {summary.skipped} cases skipped (refused by the CPU)"
    )
    print(summary.line())
    return int(summary.agree_percent < args.min_agree or summary.fallback_percent > args.max_fallback)


if __name__ == "__main__":
    sys.exit(main())
