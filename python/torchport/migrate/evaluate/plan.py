"""What plan.toml may say. The descriptions are the comments that `torchport eval init` writes into the file."""

from __future__ import annotations

from datetime import date
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, model_validator

Share = Annotated[float, Field(ge=0, le=1)]
Amount = Annotated[float, Field(ge=0)]
MEASURED_STAGES = ("baseline", "port", "optimised")
REFERENCE_STAGES = ("reference_fp32", "reference_low")


class Family(StrEnum):
    """The six criteria families. Each needs at least one criterion."""

    ADAPTATION = "adaptation_time"
    PERFORMANCE = "performance"
    COST = "operating_cost"
    COMPATIBILITY = "compatibility"
    SUPERVISION = "supervision"
    DATA_PROTECTION = "data_protection"


class Strict(BaseModel):
    """A table of the plan: an unknown key is an error, not a silent wish."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Range(Strict):
    """An uncertain figure: lowest, most likely, highest (a triangular distribution). A plain number is a certain one."""

    low: float
    mode: float
    high: float

    @model_validator(mode="before")
    @classmethod
    def _number(cls, value: Any) -> Any:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return {"low": value, "mode": value, "high": value}
        return value

    @model_validator(mode="after")
    def _ordered(self) -> Range:
        if not 0 <= self.low <= self.mode <= self.high:
            raise ValueError(f"must have 0 <= low <= mode <= high, got {self.low}, {self.mode}, {self.high}")
        return self


class ShareRange(Range):
    """A range of shares, from 0 to 1."""

    @model_validator(mode="after")
    def _share(self) -> ShareRange:
        if self.high > 1:
            raise ValueError(f"must be at most 1, got {self.high}")
        return self


class Evaluation(Strict):
    title: str = Field(min_length=1, description="What is being decided, in a line.")
    question: str = Field(min_length=1, description="The question that the decision answers.")
    owner: str = Field(min_length=1, description="Role that answers for this plan (a role, not a person's data).")
    horizon_months: PositiveInt = Field(description="Months over which the value of a move is counted.")
    currency: str = Field(pattern="^[A-Z]{3}$", description="Currency of every amount and price, ISO 4217.")


class Load(Strict):
    scenario: Literal["Offline", "Server", "SingleStream"] = Field(
        description="MLPerf scenario: Offline (all at once), Server (Poisson arrivals), SingleStream (one after another)."
    )
    queries: PositiveInt = Field(description="Queries in one start, after warm-up.")
    rate_per_s: PositiveFloat | None = Field(None, description="Server only: mean arrivals a second.")

    @model_validator(mode="after")
    def _rate(self) -> Load:
        if (self.scenario == "Server") != (self.rate_per_s is not None):
            raise ValueError(f"must give rate_per_s for Server and for nothing else, got {self.scenario}")
        return self


class Service(Strict):
    url: str = Field(description="Where requests are posted; {port} is a free port that the evaluator chooses.")
    health: str = Field(description="Answers 200 once the service can answer requests.")
    requests: str = Field(
        description="JSON Lines file: id, body, expected. Synthetic or redacted data, never production data."
    )
    answer: str = Field("label", description="Field of the response that holds the answer; dots go into objects.")
    logits: str = Field("", description="Field with the logits, for the numerical checks; empty: none.")
    tokens: str = Field("", description="Field with the number of tokens produced, for the length band; empty: none.")
    identity: str = Field("", description="URL that answers with the identity of what runs; empty: none.")
    workers: PositiveInt = Field(8, description="Connections of the load generator.")


class Workload(Strict):
    kind: Literal["service", "training"] = Field(
        description="service: HTTP under open-loop load; training: steps timed."
    )
    name: str = Field(min_length=1, description="Short name of the workload.")
    model: str = Field(min_length=1, description="Model and revision.")
    weights: str = Field(
        "", description="Weights file whose hash identifies the model; empty: none, and the report says so."
    )
    data: list[str] = Field([], description="Further files that fix the workload; sealed by their hashes.")
    result: str = Field(min_length=1, description="What one result is, for example: one classified text.")
    results_per_month: Range = Field(description="Volume in production: usable results needed a month.")
    service: Service | None = Field(None, description="Only for kind = service.")
    load: list[Load] = Field(
        [],
        description="Loads of each start, in order. The first gives the capacity: Server counts what met the latency objective at its rate.",
    )
    warm_up: int = Field(20, ge=0, description="Requests or steps before the steady phase.")
    timeout_s: PositiveFloat = Field(600, description="Longest time one start may take, seconds.")
    drift_limit: PositiveFloat = Field(0.1, description="Largest share by which a steady phase may drift.")

    @model_validator(mode="after")
    def _kind(self) -> Workload:
        if self.kind == "service" and (self.service is None or not self.load):
            raise ValueError("must have [workload.service] and at least one [[workload.load]] when kind is service")
        if self.kind == "training" and (self.service is not None or self.load):
            raise ValueError("must have neither [workload.service] nor [[workload.load]] when kind is training")
        return self


class Objectives(Strict):
    percentile: float = Field(99, gt=0, lt=100, description="Percentile that the latency bound is about.")
    latency_ms: PositiveFloat = Field(
        description="Bound on a result's latency, from its scheduled arrival, milliseconds."
    )
    cold_start_s: PositiveFloat = Field(
        description="Bound on the time from process start to the first result, seconds."
    )


class Quality(Strict):
    metric: str = Field(
        min_length=1, description="Name of the per-sample score (1 right, 0 wrong, or a figure in between)."
    )
    margin: float = Field(
        gt=0, lt=1, description="Non-inferiority margin: the largest loss of the mean score accepted."
    )
    confidence: float = Field(0.95, gt=0.5, lt=1, description="One-sided confidence of that test.")
    min_samples: PositiveInt = Field(description="Paired samples needed before the test counts.")
    max_flips: Share = Field(description="Largest share of answers that may change from right to wrong.")
    r_ratio_max: PositiveFloat = Field(
        1.2, description="Largest p95 of |target - fp32| / |low - fp32| (needs both [stages.reference_*])."
    )
    length_band: tuple[PositiveFloat, PositiveFloat] = Field(
        (0.9, 1.1), description="Allowed ratio of tokens produced, target to baseline (MLPerf's band)."
    )


class Stage(Strict):
    label: str = Field(min_length=1, description="What runs here, in a line.")
    command: list[str] = Field(
        min_length=1,
        description="Command and arguments; {port}, {events} and {python} (this interpreter) are filled in.",
    )
    cwd: str = Field(".", description="Working directory, relative to this folder.")
    env: dict[str, str] = Field({}, description="Environment variables added to the command's; never secrets.")
    expect_device: str = Field(
        description="Device that has to be seen there for the result to count, as identity reports it."
    )
    devices: PositiveInt = Field(1, description="Devices that the command uses.")
    system_desc: str = Field("", description="MLPerf system description of the machine (mlperf-sysinfo); empty: none.")
    identity: dict[str, str] = Field(
        {}, description="What no probe can see: hardware, region, zone, image digest, flags."
    )


class Conditions(Strict):
    """Where results are meant to hold. What was measured outside is shown and not used."""

    regions: list[str] = Field(min_length=1, description="Regions in which the workload may run.")
    max_rate_per_s: PositiveFloat = Field(description="Highest arrival rate that production needs, a second.")
    accept_emulated: bool = Field(
        False,
        description="Whether figures of an emulated device count. Only true when the emulation itself is the target.",
    )
    days_apart: int = Field(0, ge=0, description="Least number of days over which the starts have to be spread.")


class Commitment(Strict):
    price: str = Field(description="Id of the committed price in the price file.")
    devices: Amount = Field(description="Devices committed to; paid whether used or not.")
    months_left: int = Field(0, ge=0, description="Months still to pay after today (old platform); 0 for a new one.")


class PlatformCost(Strict):
    price: str = Field(description="Id of the on-demand or spot price in the price file.")
    utilisation: ShareRange = Field(description="Share of a paid device hour that does useful work.")
    min_devices: Amount = Field(
        1, description="Devices kept running in every hour of the month, however small the load."
    )
    fixed_per_month: Range = Field(Range(low=0, mode=0, high=0), description="Host, storage, egress, support a month.")
    operations_hours_per_month: Range = Field(description="Hours of operation a month.")
    energy_per_month: Range = Field(
        Range(low=0, mode=0, high=0), description="Energy a month, if it is not in the price."
    )
    commitment: Commitment | None = Field(None, description="Committed use, if any.")

    @model_validator(mode="after")
    def _used(self) -> PlatformCost:
        if self.utilisation.low <= 0:
            raise ValueError("utilisation must be above 0")
        return self


class Cost(Strict):
    prices: str = Field("prices.toml", description="Price file, sealed with this plan.")
    max_price_age_days: PositiveInt = Field(90, description="Older prices are refused.")
    day_rate: Range = Field(description="Cost of one engineer day.")
    hours_per_day: PositiveFloat = Field(8, description="Hours in an engineer day.")
    discount_rate: ShareRange = Field(description="Discount a year, as a share.")
    migration_days: Range = Field(
        description="Engineer days still to spend on the move, beyond the hours in the ledgers."
    )
    migration_other: Range = Field(Range(low=0, mode=0, high=0), description="Other one-off cost of the move.")
    dual_months: int = Field(ge=0, description="Months in which both platforms run before the cut-over.")
    dual_share: ShareRange = Field(description="Share of the new platform's monthly cost paid in those months.")
    capacity_value_per_month: Range = Field(
        Range(low=0, mode=0, high=0), description="Worth of capacity gained, a month after the cut-over."
    )
    risk_probability: ShareRange = Field(description="Chance that the move fails and is rolled back.")
    risk_cost: Range = Field(description="Cost of such a failure.")
    exit_days: Range = Field(description="Engineer days to go back later (exit cost), paid if the move fails.")
    hours_per_month: PositiveFloat = Field(730, description="Hours in a month.")
    baseline: PlatformCost = Field(description="The platform of today.")
    target: PlatformCost = Field(description="The platform under evaluation.")


class Criterion(Strict):
    id: str = Field(pattern="^[a-z0-9][a-z0-9-]*$", description="Short name.")
    family: Family = Field(description="One of the six families.")
    kind: Literal["gate", "score"] = Field(description="gate: has to pass; score: adds to the weighted sum.")
    measure: str = Field(description="What is looked at: a measure (torchport eval measures lists them) or answer.")
    question: str = Field(
        min_length=1, description="The criterion in words; with measure = answer, what has to be answered."
    )
    at_least: float | None = Field(None, description="Gate: smallest value that passes.")
    at_most: float | None = Field(None, description="Gate: largest value that passes.")
    worst: float | None = Field(None, description="Score: value that earns 0.")
    best: float | None = Field(None, description="Score: value that earns the whole weight.")
    weight: PositiveFloat | None = Field(None, description="Score: its weight.")
    on_fail: Literal["not_worthwhile", "keep_two"] = Field(
        "not_worthwhile", description="Gate: what a failure means; keep_two still allows a part of the load to move."
    )

    @model_validator(mode="after")
    def _shape(self) -> Criterion:
        bounds, scale = (self.at_least, self.at_most), (self.worst, self.best, self.weight)
        if self.kind == "gate" and (all(b is None for b in bounds) or any(s is not None for s in scale)):
            raise ValueError(f"gate {self.id} must give at_least or at_most, and no worst, best or weight")
        if self.kind == "score" and (any(b is not None for b in bounds) or any(s is None for s in scale)):
            raise ValueError(f"score {self.id} must give worst, best and weight, and no at_least or at_most")
        if self.kind == "score" and self.worst == self.best:
            raise ValueError(f"score {self.id} must have worst and best apart")
        return self


class Rules(Strict):
    seed: int = Field(ge=0, description="Seed of every random draw in the analysis.")
    min_starts: PositiveInt = Field(5, description="Independent starts needed for each stage.")
    interleaved: bool = Field(True, description="Starts of the stages have to alternate (A B B A ...).")
    resamples: int = Field(10_000, ge=1000, description="Bootstrap resamples.")
    draws: int = Field(10_000, ge=1000, description="Draws of the value simulation.")
    confidence: float = Field(0.95, gt=0.5, lt=1, description="Two-sided confidence of intervals.")
    move_probability: Share = Field(description="Least P(net value > 0) at the horizon for: move.")
    keep_two_probability: Share = Field(description="Least P(net value > 0) of moving a part for: keep two platforms.")
    keep_two_share: Share = Field(description="Share of the volume that a second platform would take.")
    min_score: Share = Field(description="Least weighted score, from 0 to 1, for: move.")
    valid_days: PositiveInt = Field(description="Days after which the decision expires.")


class Fallback(Strict):
    maintainer: str = Field(min_length=1, description="Role that maintains the port.")
    how_back: str = Field(min_length=1, description="How to go back.")
    separate: str = Field(
        min_length=1, description="What stays separate from the infrastructure, so that going back is possible."
    )


class Triggers(Strict):
    """What re-opens the decision."""

    price_change: Share = Field(description="Relative change of a price used.")
    volume_factor: float = Field(gt=1, description="Volume grown or shrunk by this factor.")
    quality_drop: Share = Field(description="Loss of the mean score against the one measured.")
    releases: list[str] = Field([], description="Packages whose new feature release (x.y) re-opens the decision.")
    regions: list[str] = Field([], description="Regions that re-open the decision once the target is offered there.")


class Plan(Strict):
    """plan.toml."""

    evaluation: Evaluation = Field(description="What is decided.")
    workload: Workload = Field(description="What runs, on which data, how much of it.")
    objectives: Objectives = Field(description="Service objectives. A result outside them is not a usable one.")
    quality: Quality = Field(description="The quality gate.")
    conditions: Conditions = Field(description="Where the results are meant to hold.")
    stages: dict[str, Stage] = Field(
        description="baseline: tuned as well as the target; port: what had to change; optimised."
    )
    cost: Cost = Field(description="Cost and value. Uncertain figures: { low = 1, mode = 2, high = 4 }.")
    criteria: list[Criterion] = Field(
        description="Hard gates come before soft scores: no score outweighs a failed gate."
    )
    rules: Rules = Field(description="How the evidence becomes a decision.")
    fallback: Fallback = Field(description="The way back.")
    triggers: Triggers = Field(description="What re-opens the decision.")

    @model_validator(mode="after")
    def _whole(self) -> Plan:
        if unknown := set(self.stages) - {*MEASURED_STAGES, *REFERENCE_STAGES}:
            raise ValueError(
                f"stages must be among {', '.join(MEASURED_STAGES + REFERENCE_STAGES)}, got {sorted(unknown)}"
            )
        if missing := {"baseline", "port"} - set(self.stages):
            raise ValueError(f"stages must hold baseline and port, got no {', '.join(sorted(missing))}")
        if missing := set(Family) - {c.family for c in self.criteria}:
            raise ValueError(f"criteria must cover every family, got none of {', '.join(sorted(missing))}")
        ids = [c.id for c in self.criteria]
        if twice := sorted({i for i in ids if ids.count(i) > 1}):
            raise ValueError(f"criteria must have distinct ids, got twice: {', '.join(twice)}")
        if not any(c.kind == "score" for c in self.criteria):
            raise ValueError("criteria must hold at least one score")
        return self


class Price(Strict):
    """One row of the price file."""

    id: str = Field(min_length=1, description="Name that the plan uses.")
    provider: str = Field(min_length=1, description="Who sells it.")
    sku: str = Field(min_length=1, description="The provider's name for it, for example v6e-1 or p5.48xlarge.")
    region: str = Field(min_length=1, description="Region that the price is for.")
    purchase: Literal["on_demand", "spot", "committed", "owned"] = Field(description="How it is bought.")
    unit: Literal["device-hour", "instance-hour"] = Field(description="What the amount is for.")
    devices_per_unit: PositiveInt = Field(
        description="Devices (chips, GPUs) in one unit. v5p-8 is 4 chips: it counts cores."
    )
    amount: float = Field(description="Price of one unit, in the plan's currency.")
    seen: date = Field(description="Day on which the source said so.")
    source: str = Field(min_length=1, description="Where: an address, or a document and page.")

    @property
    def per_device_hour(self) -> float:
        """Price of one device for one hour."""
        return self.amount / self.devices_per_unit


class PriceFile(Strict):
    """prices.toml."""

    currency: str = Field(pattern="^[A-Z]{3}$", description="Currency of every amount, ISO 4217.")
    price: list[Price] = Field(min_length=1, description="One table a price.")
