"""What a conformance run says: one closing line, and the failures grouped by what went wrong."""

import re
from collections import defaultdict
from dataclasses import dataclass

from conformance.causes import Cause, Causes


@dataclass
class Summary:
    """Counts over the rows of a run."""

    cases: int
    agree: int
    failed: int
    crashed: int
    hung: int
    skipped: int
    ops: int
    ops_right: int
    ops_fallback: int

    @classmethod
    def of(cls, rows: list[dict]) -> "Summary":
        """Counts rows; a skipped one (the CPU refuses every sample) is no case."""
        ran = [row for row in rows if row["result"] != "skip"]
        count = {name: sum(row["result"] == name for row in ran) for name in ("pass", "fail", "crash", "hang")}
        ops = {row["op"] for row in ran}
        wrong = {row["op"] for row in ran if row["result"] != "pass"}
        fallback = {row["op"] for row in ran if row["fallbacks"]}
        return cls(
            cases=len(ran),
            agree=count["pass"],
            failed=count["fail"],
            crashed=count["crash"],
            hung=count["hang"],
            skipped=len(rows) - len(ran),
            ops=len(ops),
            ops_right=len(ops - wrong),
            ops_fallback=len(fallback),
        )

    @property
    def agree_percent(self) -> float:
        """Share of the cases that agree with the CPU."""
        return 100 * self.agree / self.cases if self.cases else 0.0

    @property
    def fallback_percent(self) -> float:
        """Share of the ops that ran something on the CPU."""
        return 100 * self.ops_fallback / self.ops if self.ops else 0.0

    @property
    def agree_text(self) -> str:
        """agree_percent as it is printed."""
        return floor1(self.agree_percent)

    def line(self) -> str:
        """The closing line."""
        return (
            f"conformance: {self.agree} of {self.cases} agree ({self.agree_text} %), {self.failed} failed, "
            f"{self.crashed} crashed, {self.hung} hung; ops needing a fallback: {self.ops_fallback} of {self.ops} "
            f"({floor1(self.fallback_percent)} %)"
        )


def floor1(percent: float) -> str:
    """One decimal, rounded down: 94.99 must not read as 95.0."""
    return f"{int(percent * 10) / 10:.1f}"


def group_key(message: str) -> str:
    """A message without what differs from op to op: numbers, shapes, quoted names."""
    head = message.strip().splitlines()[0] if message.strip() else "(no message)"
    head = re.sub(r"aten::[\w.]+", "aten::*", head)
    head = re.sub(r"'[^']*'", "'*'", head)
    head = re.sub(r"[\[(][\d, x]*[\])]", "[*]", head)
    return re.sub(r"-?\d+(\.\d+)?(e[+-]?\d+)?", "#", head)[:160]


def grouped_failures(rows: list[dict]) -> str:
    """Failures, the most frequent message first, each with the ops and modes it strikes."""
    groups: dict[str, list[dict]] = defaultdict(list)
    for row in rows:
        if row["result"] not in ("pass", "skip"):
            groups[f"{row['result']}: {group_key(row['message'])}"].append(row)
    lines = []
    for key, members in sorted(groups.items(), key=lambda item: -len(item[1])):
        lines.append(f"{len(members):5}  {key}")
        lines.append(_places(members))
        lines.append(f"         e.g. {' '.join(members[0]['message'].split())[:300]}")
    return "\n".join(lines)


def fallback_table(rows: list[dict]) -> str:
    """Which aten ops fell back, and for how many ops of the database."""
    users: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        for name in row["fallbacks"]:
            users[name].add(row["op"])
    ordered = sorted(users.items(), key=lambda item: (-len(item[1]), item[0]))
    return "\n".join(f"{len(ops):5}  {name}: {' '.join(sorted(ops)[:8])}" for name, ops in ordered)


def caused(rows: list[dict], causes: Causes, complete: bool) -> tuple[str, int]:
    """Every failure under its cause, and the number of what must not be: failures without one, idle causes.

    complete: the rows are those of every op, so a cause that explains none of them is out of date.
    """
    known: dict[Cause, list[dict]] = {cause: [] for cause in causes}
    unknown = []
    for row in rows:
        if row["result"] not in ("pass", "skip"):
            cause = causes.of(row)
            (unknown if cause is None else known[cause]).append(row)
    lines = [f"{len(members):5}  {cause.cause}\n{_places(members)}" for cause, members in known.items() if members]
    idle = [cause for cause, members in known.items() if complete and not members]
    lines += [f"    0  explains nothing any more, take it out of causes.toml: {cause}" for cause in idle]
    if unknown:
        lines.append(f"{len(unknown):5}  WITHOUT A CAUSE\n{grouped_failures(unknown)}")
    return "\n".join(lines), len(unknown) + len(idle)


def _places(members: list[dict]) -> str:
    """The ops, dtypes and modes of failures, a line an op."""
    by_op: dict[str, set[str]] = defaultdict(set)
    for row in members:
        by_op[row["op"]].add(f"{row['dtype']}/{row['mode']}")
    return "\n".join(f"         {op}: {' '.join(sorted(where))}" for op, where in sorted(by_op.items()))


def uncut(rows: list[dict]) -> str:
    """How many of the database's samples were compared, and how many cases the time budget cut short."""
    ran = [row for row in rows if row.get("there")]
    cut = sum(row["result"] == "pass" and row["samples"] < row["there"] for row in ran)
    return f"{sum(row['samples'] for row in ran)} samples compared; {cut} cases compared fewer samples than there are"


def strides_line(rows: list[dict]) -> str:
    """How many of the cases that agree also have the CPU's memory format, and which ops do not."""
    agreeing = [row for row in rows if row["result"] == "pass" and "strides" in row]
    other = sorted({row["op"] for row in agreeing if row["strides"]})
    count = sum(not row["strides"] for row in agreeing)
    names = f"; other strides: {' '.join(other)}" if other else ""
    return f"memory format: {count} of {len(agreeing)} agreeing cases have the CPU's strides{names}"
