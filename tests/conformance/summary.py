"""What a conformance run says: one closing line, and the failures grouped by what went wrong."""

import re
from collections import defaultdict
from dataclasses import dataclass


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

    def line(self) -> str:
        """The closing line."""
        return (
            f"conformance: {self.agree} of {self.cases} agree ({floor1(self.agree_percent)} %), {self.failed} failed, "
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
        by_op: dict[str, set[str]] = defaultdict(set)
        for row in members:
            by_op[row["op"]].add(f"{row['dtype']}/{row['mode']}")
        for op, where in sorted(by_op.items()):
            lines.append(f"         {op}: {' '.join(sorted(where))}")
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
