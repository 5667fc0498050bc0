"""Sends the programs of a conformance run through a target's compiler, without the machine.

python tests/conformance/targets.py --read out/conformance-full.jsonl --programs out/programs --out out/v6e.json

Of each case (op, dtype, mode) that agrees with the CPU, one program of each lowering that it launched goes to the
compiler: programs of the same lowering differ in shapes only. Results are kept on disk by the hash of the program, so
an interrupted run goes on where it ended.
"""

import argparse
import json
import re
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from conformance.record import read
from torchport.check.compiler import CompileResult, Job, compile_many
from torchport.check.targets import target


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--read", type=Path, required=True, help="rows of a conformance run")
    parser.add_argument("--programs", type=Path, required=True, help="the folder that this run was given")
    parser.add_argument("--target", default="tpu:v6e", help="a name that `torchport check --target` takes")
    parser.add_argument("--timeout", type=float, default=120, help="seconds a program may take")
    parser.add_argument("--out", type=Path, required=True, help="file that receives the results")
    parser.add_argument("--min-compiled", type=float, default=97, help="exit 1 below this percentage of cases")
    return parser.parse_args()


def chosen(rows: list[dict]) -> dict[tuple[str, str, str], list[str]]:
    """Case -> files of its programs, one a lowering; a program that another case needs is taken again."""
    taken: set[str] = set()
    found = {}
    for row in rows:
        if row["result"] != "pass" or not row.get("programs"):
            continue
        by_name: dict[str, list[str]] = {}
        for file, name in row["programs"].items():
            by_name.setdefault(name, []).append(file)
        files = [next((f for f in files if f in taken), files[0]) for files in by_name.values()]
        taken.update(files)
        found[row["op"], row["dtype"], row["mode"]] = files
    return found


class Progress:
    """A line every five per cent."""

    def __init__(self, total: int):
        self.total, self.done, self.began = total, 0, time.monotonic()

    def step(self, line: str) -> None:
        """Counts one program; the line of one that takes long is printed as it is."""
        if "still compiling" in line:
            print(line, file=sys.stderr, flush=True)
            return
        self.done += 1
        if self.done == self.total or self.done * 20 // self.total != (self.done - 1) * 20 // self.total:
            spent = time.monotonic() - self.began
            left = spent / self.done * (self.total - self.done)
            print(f"{self.done}/{self.total} programs, {spent:.0f} s, {left:.0f} s left", file=sys.stderr, flush=True)


def main() -> int:
    args = arguments()
    cases = chosen(read(args.read).rows)
    if not cases:
        raise SystemExit(f"[--read] must hold rows with programs, got none in {args.read}. Try: run.py --programs DIR")
    files = list(dict.fromkeys(file for found in cases.values() for file in found))
    machine = target(args.target)
    jobs = [Job(machine, (args.programs / file).read_text(), hlo=False, label=file) for file in files]
    results = dict(zip(files, compile_many(jobs, args.timeout, progress=Progress(len(jobs)).step), strict=True))
    outcomes = Counter(result.outcome for result in results.values())
    if outcomes["no_plugin"]:
        raise SystemExit(f"[{args.target}] must have its plugin installed, got: {next(iter(results.values())).words}")
    refused = {
        case: [results[file] for file in found if not results[file].ok]
        for case, found in cases.items()
        if not all(results[file].ok for file in found)
    }
    data = {
        "target": args.target,
        "plugin": next((r.plugin for r in results.values() if r.plugin), ""),
        "programs": dict(outcomes),
        "compiled": sorted("|".join(case) for case in cases.keys() - refused.keys()),
        "refused": {"|".join(case): words(found[0]) for case, found in sorted(refused.items())},
    }
    part = args.out.with_suffix(".part")
    part.write_text(json.dumps(data, indent=1) + "\n")
    part.replace(args.out)
    groups: dict[str, list[str]] = {}
    for case, text in data["refused"].items():
        groups.setdefault(text, []).append(case)
    for text, found in sorted(groups.items(), key=lambda item: -len(item[1])):
        print(f"{len(found):5}  {text}\n         {' '.join(found[:12])}{' ...' if len(found) > 12 else ''}")
    share = 100 * (len(cases) - len(refused)) / len(cases)
    print(f"{args.target}: {len(cases) - len(refused)} of {len(cases)} cases compile ({int(share * 10) / 10} %)")
    return int(share < args.min_compiled)


def words(result: CompileResult) -> str:
    """Outcome and the compiler's first line, without the names and shapes that differ from program to program."""
    line = next((line for line in result.words.splitlines() if line.strip()), "no words")
    line = re.sub(r"(\w+)\[[\d,]*\](\{[^}]*\})?", r"\1[...]", re.sub(r"%[\w.]+ = ", "", " ".join(line.split())))
    line = re.sub(r"(\[\.{3}\] [a-z]+)\(.*", r"\1(...)", line)
    return f"{result.outcome}: {line[:300]}"


if __name__ == "__main__":
    sys.exit(main())
