"""What one start of one stage leaves behind: identity, phases, samples. Times in seconds or milliseconds as named."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

UNKNOWN = "unknown"


class Record(BaseModel):
    """A part of a measurement; written once, never changed."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Identity(Record):
    """Which model, on which software and hardware, where. The names follow MLPerf's system description."""

    model: str
    weights_sha256: str = UNKNOWN
    data_sha256: dict[str, str] = {}
    device: str = UNKNOWN  # as the workload reported it
    emulated: bool | None = None  # None: nobody said
    region: str = UNKNOWN
    zone: str = UNKNOWN
    purchase: str = UNKNOWN
    framework: str = UNKNOWN
    plugin: str = UNKNOWN
    precision: str = UNKNOWN
    software: dict[str, str] = {}
    flags: dict[str, str] = {}
    command: list[str] = []
    source_revision: str = UNKNOWN
    system: dict[str, str | int | float] = {}  # host, memory, operating system: mlperf-sysinfo's fields


class Cold(Record):
    """From the start of the process to the first result: imports, weights, first compilation."""

    ready_s: float
    first_result_s: float


class Steadiness(Record):
    """Whether the steady phase was steady (see stats.drift)."""

    verdict: Literal["steady", "drifting_up", "drifting_down", "too_short"]
    change: float  # relative change of latency from begin to end of the phase


class LoadResult(Record):
    """One load of a service. Latency counts from the scheduled arrival, so a late client hides nothing."""

    scenario: str
    rate_per_s: float | None = None
    queries: int
    failed: int
    duration_s: float
    latency_ms: list[float]  # of the queries that were answered, in order of arrival
    throughput_per_s: float
    steadiness: Steadiness
    loadgen: dict[str, Any] = {}
    client_cpu_share: float | None = None
    null_p99_ms: float | None = None  # the same client against a server that does nothing


class Steps(Record):
    """Timed training steps, after warm-up."""

    seconds: list[float]
    items: list[float]
    steadiness: Steadiness


class Sample(Record):
    """One answer, without its text: whoever needs the text runs the workload again."""

    id: str
    score: float
    answer_sha256: str  # first 16 digits
    tokens: float | None = None


class Measurement(Record):
    """One start."""

    stage: str
    source: str = "run"  # or the tool that it was imported from
    session: str
    position: int  # place in the order of the session
    started: str
    identity: Identity
    cold: Cold | None = None
    warm_up_s: list[float] = []
    loads: list[LoadResult] = []
    steps: Steps | None = None
    losses: list[float] = []
    samples: list[Sample] = []
    device_report: dict[str, Any] = {}
    notes: list[str] = Field([], description="What an importer could not take over.")

    def mean_score(self) -> float | None:
        """Mean of the samples' scores."""
        return float(np.mean([s.score for s in self.samples])) if self.samples else None
