"""From an evaluation folder to the page. Reads only; what it shows comes from the log, the sealed plan and the decision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torchport.migrate.evaluate import Evaluation, TamperError, load_folder
from torchport.migrate.evaluate.analysis import StageFigures
from torchport.migrate.evaluate.plan import MEASURED_STAGES
from torchport.migrate.evaluate.shown import not_shown
from torchport.migrate.report import plots
from torchport.migrate.report.evidence import Evidence
from torchport.migrate.report.words import Words
from torchport.pages import pages, plot
from torchport.pages.page import anchor

CLASSES = {"move": "good", "keep_two": "fair", "not_worthwhile": "bad"}


def build(folder: Path, lang: str = "en") -> str:
    """The page's HTML. Raises EvalError for a folder that is none, TamperError when its sealed copies are gone."""
    words = Words(lang)
    evaluation = load_folder(folder)
    evidence = Evidence(evaluation)
    broken = any("results/" in line or "sealed/" in line or "chain." in line for line in evaluation.findings)
    decision = None if broken else evaluation.decision
    templates = pages("torchport.migrate.report")
    templates.add(w=words, cite=evidence.cite, anchor=anchor)
    view = View(evaluation, decision, words, evidence, broken)
    return templates.render(
        "decision.html.j2",
        title=f"{words('title.report')}: {view.title}",
        lang=lang,
        view=view,
        drawn=view.plots(),
        evidence=evidence,
    )


class View:
    """What the template shows, in the language of the page."""

    def __init__(
        self,
        evaluation: Evaluation,
        decision: dict[str, Any] | None,
        words: Words,
        evidence: Evidence,
        broken: bool,
    ) -> None:
        self.evaluation, self.decision, self.words, self.evidence = evaluation, decision, words, evidence
        self.findings = evaluation.findings
        self.broken = broken
        try:
            self.plan = evaluation.plan
        except TamperError:
            self.plan = None
        self.title = self.plan.evaluation.title if self.plan else evaluation.folder.name
        self.outcome = decision["outcome"] if decision else "none"
        self.css = CLASSES.get(self.outcome, "open")
        self.decided = evidence.default
        self._stages: dict[str, StageFigures] = {}
        if self.plan and not broken:
            measured = [name for name in MEASURED_STAGES if name in self.plan.stages]
            self._stages = {name: StageFigures(evaluation, name) for name in measured}

    # ---- the decision

    @property
    def because(self) -> list[tuple[str, bool]]:
        """The reason, and whether it is in the page's language."""
        return [self.words.derived(self.decision["because"])] if self.decision else []

    @property
    def not_shown(self) -> list[tuple[str, bool]]:
        """Sentences with whether they are in the page's language."""
        if self.decision:
            sentences = self.decision["not_shown"]
        elif self.plan and not self.broken:
            sentences = not_shown(self.evaluation, [])
        else:
            sentences = []
        return [self.words.derived(sentence) for sentence in sentences]

    # ---- the stages

    def judged(self, stage: str) -> dict[str, Any] | None:
        """What the decision says of a stage."""
        return self.decision["stages"].get(stage) if self.decision else None

    def rows(self) -> list[dict[str, Any]]:
        """The table of figures: a row a figure, cells by stage as markup."""
        if not self._stages:
            return []
        w, cite = self.words, self.evidence.cite
        percentile = w.number(self.plan.objectives.percentile)
        found: list[dict[str, Any]] = []

        def row(key: str, cells: list[Any], **values: object) -> None:
            if any(cells):
                label = w(f"text.{key}", **values)
                found.append({"label": cite(label) if any(c.isdigit() for c in label) else label, "cells": cells})

        def each(figure: Any) -> list[Any]:
            return [figure(name, stage) for name, stage in self._stages.items()]

        def starts(name: str, stage: StageFigures) -> Any:
            if not stage.all:
                return ""
            every = [result.evidence for result in stage.all]
            left = len(stage.all) - len(stage.counted)
            return cite(f"{len(stage.counted)}" + (f" ({left} {w('text.not_counted')})" if left else ""), every)

        def judged_cell(name: str, stage: StageFigures, show: Any) -> Any:
            judged = self.judged(name)
            return cite(show(judged), self._both(stage)) if judged and show(judged) else ""

        row("starts", each(starts))
        row("capacity", each(lambda n, s: cite(self._interval(s.capacity.as_dict()), s.evidence) if s.capacity else ""))
        row("ratio", each(lambda n, s: judged_cell(n, s, lambda j: self._interval(j["ratio"]) if j["ratio"] else "")))
        row(
            "latency",
            each(lambda n, s: cite(w.number(s.latency["ms"]), s.evidence) if s.latency else ""),
            percentile=percentile,
        )
        row("cold", each(lambda n, s: "" if s.cold_start_s is None else cite(w.number(s.cold_start_s), s.evidence)))
        row("failed", each(lambda n, s: "" if s.failed_share is None else cite(w.percent(s.failed_share), s.evidence)))
        row(
            "loss",
            each(
                lambda n, s: judged_cell(
                    n, s, lambda j: w.number(j["quality"]["loss_upper"]) if j["quality"]["n"] else ""
                )
            ),
        )
        row(
            "flips",
            each(
                lambda n, s: judged_cell(
                    n,
                    s,
                    lambda j: f"{j['quality']['flips_worse']} / {j['quality']['n']}" if j["quality"]["n"] else "",
                )
            ),
        )
        ledgers = self.evaluation.ledgers
        row("hours", each(lambda n, s: cite(w.number(ledgers[n].total_hours), [e.id for e in ledgers[n].hours])))
        row("changed", each(lambda n, s: cite(len(ledgers[n].changes), [e.id for e in ledgers[n].changes])))
        return found

    @property
    def stages(self) -> list[str]:
        """Names of the measured stages of the plan."""
        return list(self._stages)

    def _both(self, stage: StageFigures) -> list[str]:
        """Evidence of a comparison: the baseline's starts and the stage's."""
        return self._stages["baseline"].evidence + stage.evidence

    def _interval(self, row: dict[str, float]) -> str:
        number = self.words.rounded
        separator = " ; " if self.words.lang == "fr" else ", "
        return f"{number(row['estimate'])} [{number(row['low'])}{separator}{number(row['high'])}]"

    def changes(self) -> list[tuple[str, list[Any]]]:
        """Changes by stage, where there are some."""
        if self.broken:
            return []
        return [(name, ledger.changes) for name, ledger in self.evaluation.ledgers.items() if ledger.changes]

    # ---- the criteria

    def criteria(self) -> list[tuple[str, dict[str, Any]]]:
        """Judged stages, the deciding one first."""
        if not self.decision:
            return []
        stages = self.decision["stages"]
        return sorted(stages.items(), key=lambda item: item[0] != self.decision["stage"])

    def bound(self, criterion: dict[str, Any]) -> str:
        """A gate's bound or a score's scale."""
        w = self.words
        if "weight" in criterion:
            return w("text.scale", **{key: w.number(criterion[key]) for key in ("worst", "best", "weight")})
        limits = [
            w(f"text.{key}", value=w.number(criterion[key]))
            for key in ("at_least", "at_most")
            if criterion[key] is not None
        ]
        return ", ".join(limits)

    def triggers(self) -> list[str]:
        """What re-opens the decision."""
        w, given = self.words, self.plan.triggers
        found = [
            w("text.trigger_price", value=w.percent(given.price_change)),
            w("text.trigger_volume", value=w.number(given.volume_factor)),
            w("text.trigger_quality", value=w.number(given.quality_drop)),
        ]
        found += [w("text.trigger_release", value=name) for name in given.releases]
        return found + [w("text.trigger_region", value=name) for name in given.regions]

    # ---- the plots

    def plots(self) -> list[dict[str, Any]]:
        """Each with its markup and the evidence that it is drawn from."""
        stages = self._stages
        intervals = {name: stage.capacity.as_dict() for name, stage in stages.items() if stage.capacity}
        delays = {name: self._delays(stage) for name, stage in stages.items()}
        every = [evidence for stage in stages.values() for evidence in stage.evidence]
        found = [("capacity", plots.capacity(intervals, self.words), every)]
        if self.plan:
            found.append(("latency", plots.latency(delays, self.plan.objectives.latency_ms, self.words), every))
        whole = self.decision["cost"]["whole"] if self.decision else None
        if whole:
            found.append(("value", plots.value(whole["path"], whole["currency"], self.words), [self.decided]))
            central, rows = whole["net"]["central"], whole["tornado"]
            found.append(("tornado", plots.tornado(rows, central, whole["currency"], self.words), [self.decided]))
        shown = []
        for name, figure, ids in found:
            if figure is not None:
                label = figure.layout.title.text
                markup = plot(f"plot-{name}", figure, label, self.words.lang)
                shown.append({"markup": markup, "evidence": self.evidence.cite(self.words("plot.drawn_from"), ids)})
        return shown

    @staticmethod
    def _delays(stage: StageFigures) -> list[float]:
        """Latencies in ms of the loads that have an objective; step times of a training."""
        loads = [load for m in stage.measurements for load in m.loads if load.scenario != "Offline"]
        steps = [1000 * second for m in stage.measurements if m.steps for second in m.steps.seconds]
        return [value for load in loads for value in load.latency_ms] + steps
