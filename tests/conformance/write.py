"""Writes python/torchport/ops.json, from which docs/ops.md and `torchport ops` come, out of the rows of a run.

python tests/conformance/write.py --read out/conformance-full.jsonl --compiled out/v6e.json
python tests/conformance/write.py --read full.jsonl some.jsonl         cases of the second instead of the first's
python tests/conformance/write.py --read some-ops.jsonl --merge        only the ops of these rows change
"""

import argparse
import datetime
import json
import sys
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from conformance.compare import TOLERANCES
from conformance.record import Rows, read
from ops.cases import CASES
from torchport.optable import FILE, MODES


def letter(row: dict) -> str:
    """The state of a case."""
    if row["result"] == "skip":
        return "-"
    return ("c" if row["fallbacks"] else "y") if row["result"] == "pass" else "n"


def joined(runs: list[Rows]) -> Rows:
    """The rows of several runs; of one case those of the last run that has it."""
    cases: dict[tuple[str, str, str], list[dict]] = {}
    for run in runs:
        mine: dict[tuple[str, str, str], list[dict]] = defaultdict(list)
        for row in run.rows:
            mine[row["op"], row["dtype"], row["mode"]].append(row)
        cases |= mine
    return Rows(runs[-1].head, [row for rows in cases.values() for row in rows])


def verdicts_of(paths: list[Path]) -> dict:
    """The results of several runs of targets.py; a later one's cases win."""
    result: dict = {"refused": {}, "compiled": []}
    compiled: dict[str, None] = {}
    for path in paths:
        data = json.loads(path.read_text())
        for case in data["compiled"]:
            result["refused"].pop(case, None)
            compiled[case] = None
        for case, text in data["refused"].items():
            compiled.pop(case, None)
            result["refused"][case] = text
        result |= {"target": data["target"], "plugin": data["plugin"], "compiled": list(compiled)}
    return result


def grouped(states: dict[str, str]) -> dict[str, str]:
    """State -> the dtypes that have it, in a line."""
    groups: dict[str, list[str]] = defaultdict(list)
    for dtype, state in states.items():
        groups[state].append(dtype)
    return {state: " ".join(dtypes) for state, dtypes in groups.items()}


def ops(found: Rows, compiled: dict, before: dict) -> dict[str, dict]:
    """What the file says of each op; ops of an earlier file that these rows do not touch are kept."""
    rows: dict[str, list[dict]] = defaultdict(list)
    for row in found.rows:
        rows[row["op"]].append(row)
    verdicts = dict.fromkeys(compiled.get("compiled", ()), "y") | dict.fromkeys(compiled.get("refused", ()), "n")
    result = dict(before)
    for name, members in sorted(rows.items()):
        states: dict[str, dict[str, str]] = defaultdict(dict)
        target: dict[str, dict[str, str]] = defaultdict(dict)
        for row in members:
            if row["mode"] in MODES:
                states[row["dtype"]][row["mode"]] = letter(row)
                target[row["dtype"]][row["mode"]] = verdicts.get(f"{name}|{row['dtype']}|{row['mode']}", "-")
        wrong = [row["result"] for row in members if row["mode"] == "errors" and row["result"] != "skip"]
        entry = {"states": grouped({d: "".join(s.get(m, "-") for m in MODES) for d, s in states.items()})}
        sent = {d: "".join(s.get(m, "-") for m in MODES) for d, s in target.items()}
        if set("".join(sent.values())) - {"-"}:
            entry["target"] = grouped(sent)
        launched = {lowering for row in members for lowering in row.get("programs", {}).values()}
        fallbacks = {aten.removeprefix("aten::") for row in members for aten in row["fallbacks"]}
        words = {compiled["refused"][f"{name}|{r['dtype']}|{r['mode']}"] for r in members
                 if f"{name}|{r['dtype']}|{r['mode']}" in compiled.get("refused", {})}  # fmt: skip
        entry |= {"lowerings": sorted(launched)} if launched else {}
        entry |= {"fallbacks": sorted(fallbacks)} if fallbacks else {}
        entry |= {"wrong_calls": [wrong.count("pass"), len(wrong)]} if wrong else {}
        entry |= {"refusals": sorted(words)} if words else {}
        result[name] = entry
    return result


def dumps(data: dict) -> str:
    """JSON with a line an op, so that a change of one shows as one."""
    head = {key: value for key, value in data.items() if key != "ops"}
    lines = [f"{json.dumps(name)}: {json.dumps(op)}" for name, op in sorted(data["ops"].items())]
    return json.dumps(head, indent=1)[:-2] + ',\n "ops": {\n' + ",\n".join(lines) + "\n }\n}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--read", type=Path, nargs="+", required=True, help="rows of runs; a later one's cases win")
    parser.add_argument("--compiled", type=Path, nargs="*", default=[], help="results of targets.py for the same rows")
    parser.add_argument("--merge", action="store_true", help="keep what the file says of other ops")
    parser.add_argument("--out", type=Path, default=FILE, help="file to write")
    args = parser.parse_args()
    found, compiled = joined([read(path) for path in args.read]), verdicts_of(args.compiled)
    before = json.loads(args.out.read_text()) if args.merge and args.out.exists() else {}
    data = {
        "source": "tests/conformance/run.py, tests/conformance/targets.py",
        "date": datetime.date.fromtimestamp(max(path.stat().st_mtime for path in args.read)).isoformat(),
        "torch": found.head["torch"],
        "samples": found.head["samples"],
        "target": compiled.get("target", before.get("target", "")),
        "plugin": compiled.get("plugin", before.get("plugin", "")),
        "tolerances": {str(dtype).removeprefix("torch."): tol for dtype, tol in TOLERANCES.items()},
        "looser": {case.name: [case.tol, case.why] for case in CASES if case.tol is not None},
        "ops": ops(found, compiled, before.get("ops", {})),
    }
    part = args.out.with_suffix(".part")
    part.write_text(dumps(data), encoding="utf-8")
    part.replace(args.out)
    print(f"{args.out}: {len(data['ops'])} ops, {args.out.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
