"""The decision record: Markdown in the form of MADR 4 (adr.github.io/madr), with the fields that make it revisable."""

from __future__ import annotations

from typing import Any

TITLES = {"move": "Move", "keep_two": "Keep two platforms", "not_worthwhile": "Not worthwhile: stay"}


def madr(decision: dict[str, Any], number: int, supersedes: str | None) -> str:
    """The record of a decision as decide.compute made it."""
    stage = decision["stages"][decision["stage"]]
    whole = decision["cost"]["whole"]
    criteria = [*stage["gates"], *stage["scores"]]
    figures = {"baseline": decision["baseline"], **{n: s["figures"] for n, s in decision["stages"].items()}}
    parts = [
        _front(decision, supersedes),
        f"# {number:04d} {TITLES[decision['outcome']]}: {decision['title']}",
        (f"## Context and Problem Statement\n\n{decision['question']}\n\nThe criteria were sealed before the first measurement "
        f"({decision['seal']}, plan `{decision['plan_sha256'][:16]}`, prices `{decision['prices_sha256'][:16]}`)."),
        "## Decision Drivers\n\n" + _lines(f"{c['question']} (`{c['id']}`)" for c in criteria),
        "## Considered Options\n\n" + _lines(TITLES.values()),
        (f"## Decision Outcome\n\nChosen: **{TITLES[decision['outcome']]}**, on the evidence of the stage "
        f"`{decision['stage']}`, because {decision['because']}."),
        "### Consequences\n\n" + (_consequences(whole) if whole else "No value was computed: a gate decided before it."),
        ("### Confirmation\n\n`torchport eval verify` checks the chain and every file; `torchport eval decide` in a copy of "
        "this folder reproduces this decision; `torchport eval recheck` says whether it still stands."),
        "## Pros and Cons of the Options\n\n" + "\n\n".join(_stage(n, s) for n, s in decision["stages"].items()),
        "## More Information",
        (f"### Maintainer and way back\n\n* Maintainer: {decision['fallback']['maintainer']}\n* How to go back: "
        f"{decision['fallback']['how_back']}\n* Kept separate: {decision['fallback']['separate']}"),
        f"### Expires and re-opens\n\nValid until {decision['expires']}. Re-opened earlier by:\n\n{_triggers(decision)}",
        "### What this does not show\n\n" + _lines(decision["not_shown"]),
        "### Amendments\n\n" + (_lines(_amendment(a) for a in decision["amendments"]) or "None."),
        "### Evidence\n\n" + _lines(
            f"{name}: {', '.join(f['evidence']) or 'none'}"
            for name, f in figures.items()
        ),
    ]  # fmt: skip
    return "\n\n".join(parts) + "\n"


def _front(decision: dict[str, Any], supersedes: str | None) -> str:
    rows = {
        "status": "accepted",
        "date": decision["as_of"],
        "outcome": decision["outcome"],
        "stage": decision["stage"],
        "criteria_sha256": decision["plan_sha256"],
        "prices_sha256": decision["prices_sha256"],
        "evidence_head": decision["evidence_head"],
        "expires": decision["expires"],
        "maintainer": f'"{decision["fallback"]["maintainer"]}"',
        **({"supersedes": supersedes} if supersedes else {}),
    }
    return "---\n" + "\n".join(f"{k}: {v}" for k, v in rows.items()) + "\n---"


def _lines(items: Any) -> str:
    return "\n".join(f"* {item}" for item in items)


def _consequences(value: dict[str, Any]) -> str:
    net, even, month, unit = value["net"], value["break_even_month"], value["month_cost"], value["currency"]
    typical = "never within the horizon" if even["p50"] is None else f"month {even['p50']:g}"
    widest = value["tornado"][0]["figure"] if value["tornado"] else "none"
    return _lines(
        [
            (
                f"Net value of a whole move after {value['horizon_months']} months: {net['median']:,.2f} {unit} (median; "
                f"{net['low']:,.2f} to {net['high']:,.2f}), P(net > 0) = {value['p_net_positive']:.3f}."
            ),
            f"Break-even: {typical} (median); not within the horizon in {even['p_never_within_horizon']:.1%} of draws.",
            f"A month costs {month['baseline']:,.2f} {unit} on the baseline, {month['target']:,.2f} on the target.",
            (
                f"A usable result costs {value['cost_per_usable']['baseline']:.3g} {unit} and "
                f"{value['cost_per_usable']['target']:.3g} {unit}."
            ),
            f"The figure that matters most: {widest}.",
        ]
    )


def _stage(name: str, stage: dict[str, Any]) -> str:
    rows = ["| criterion | family | value | bound | result | evidence |", "|---|---|---|---|---|---|"]
    for g in stage["gates"]:
        bound = " and ".join(
            f"{word} {g[key]:g}"
            for word, key in (("at least", "at_least"), ("at most", "at_most"))
            if g[key] is not None
        )
        result = {True: "passed", False: "**failed**", None: "no value"}[g["passed"]]
        rows.append(
            f"| gate `{g['id']}` | {g['family']} | {_number(g['value'])} | {bound} | {result} | {_ids(g['evidence'])} |"
        )
    for s in stage["scores"]:
        bound = f"{s['worst']:g} to {s['best']:g}, weight {s['weight']:g}"
        points = _number(s["points"])
        rows.append(
            f"| score `{s['id']}` | {s['family']} | {_number(s['value'])} | {bound} | {points} | {_ids(s['evidence'])} |"
        )
    ratio = stage["ratio"]
    speed = f"{ratio['estimate']:.3g} [{ratio['low']:.3g}, {ratio['high']:.3g}]" if ratio else "not measured"
    head = (
        f"### {name}\n\nUsable results of a device-hour, to baseline: {speed}. Ledger: {stage['hours']:g} hours, "
        f"{stage['changes']} changes. Score: {_number(stage['score'])}. Outcome by the rules: {stage['outcome'] or 'open'} "
        f"({stage['because']})."
    )
    return head + "\n\n" + "\n".join(rows)


def _ids(evidence: list[str]) -> str:
    return evidence[0] if len(evidence) == 1 else f"{evidence[0]} … {evidence[-1]}" if evidence else "none"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.4g}"


def _triggers(decision: dict[str, Any]) -> str:
    t = decision["triggers"]
    return _lines(
        [
            f"price: {', '.join(decision['basis']['prices'])} changes by {t['price_change']:.0%} or more",
            f"volume: grows or shrinks by a factor of {t['volume_factor']:g}",
            f"quality: the mean score falls by {t['quality_drop']:g} or more",
            f"release: a new x.y of {', '.join(t['releases']) or 'nothing named'}",
            f"region: the target is offered in {', '.join(t['regions']) or 'nothing named'}",
        ]
    )


def _amendment(a: dict[str, Any]) -> str:
    what = "; ".join(f"{c['file']} {c['field']}: {c['sealed']!r} to {c['present']!r}" for c in a["changes"])
    return f"{a['id']} by {a['by']}, after {a['measurements_before']} measurements: {a['reason']} ({what})"
