"""The machines that can be checked for: the table of targets.toml, and names such as `tpu:v6e:2x2` or `cuda:h100`."""

from __future__ import annotations

import datetime
import functools
import re
import tomllib
from importlib import resources
from math import prod
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, HttpUrl, PositiveFloat, PositiveInt

Platform = str
SCHEMA = 1


class TargetError(ValueError):
    """A target or price that cannot be used; the message says what is allowed."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(_Strict):
    """Where a figure comes from. A source without a date is refused: figures and prices age."""

    title: str
    url: HttpUrl
    date: datetime.date


class Fact(_Strict):
    """One figure (FLOP/s, bytes or bytes/s by its place) and the id of its source."""

    value: PositiveFloat
    source: str


class Link(Fact):
    """Bytes/s one way of one link between chips, and how many axes of links a chip has."""

    axes: PositiveInt


class Price(_Strict):
    """USD per chip and hour."""

    usd: PositiveFloat
    region: str
    kind: str
    source: str


class TargetConfig(_Strict):
    """What XLA's GPU compiler must know of a chip that is not there."""

    name: str
    capability: tuple[int, int] | None = None
    gcn_arch: str | None = None
    core_count: PositiveInt
    fpus_per_core: PositiveInt
    clock_rate_ghz: PositiveFloat
    l2_cache_size: PositiveInt
    memory_bandwidth: PositiveInt
    device_memory_size: PositiveInt
    shared_memory_per_core: PositiveInt
    shared_memory_per_block_optin: PositiveInt

    def text(self) -> str:
        """The GpuTargetConfigProto in protobuf's text form."""
        amd = self.gcn_arch is not None
        rows = {
            "threads_per_block_limit": 1024,
            "threads_per_warp": 64 if amd else 32,
            "shared_memory_per_block": 65536 if amd else 49152,
            "threads_per_core_limit": 2048,
            "block_dim_limit_x": 2147483647,
            "block_dim_limit_y": 65535,
            "block_dim_limit_z": 65535,
            "registers_per_core_limit": 131072 if amd else 65536,
            "registers_per_block_limit": 131072 if amd else 65536,
        }
        given = self.model_dump(exclude={"name", "capability", "gcn_arch"})
        body = " ".join(f"{key}: {value}" for key, value in (rows | given).items())
        if amd:
            chip = f'rocm_compute_capability {{ gcn_arch_name: "{self.gcn_arch}" }}'
            around = 'platform_name: "ROCM" dnn_version_info { }'
        else:
            major, minor = self.capability or (0, 0)
            chip = f"cuda_compute_capability {{ major: {major} minor: {minor} }}"
            around = (
                'platform_name: "CUDA" dnn_version_info { major: 9 minor: 10 } runtime_version { major: 13 minor: 0 }'
            )
        return f'gpu_device_info {{ {body} {chip} }} {around} device_description_str: "{self.name}"'


class Chip(_Strict):
    """The facts of one chip."""

    title: str
    platform: Platform
    compiler: bool = True
    topology: str = "1"
    topology_prefix: str = ""
    devices_per_chip: PositiveInt = 1
    hbm: Fact
    bandwidth: Fact
    peak: dict[str, Fact]
    link: Link | None = None
    price: tuple[Price, ...] = ()
    target_config: TargetConfig | None = None


class Table(_Strict):
    """The whole of targets.toml."""

    schema_version: int = Field(alias="schema")
    source: dict[str, Source]
    chip: dict[str, Chip]

    def model_post_init(self, context: Any) -> None:
        for name, chip in self.chip.items():
            facts = [chip.hbm, chip.bandwidth, *chip.peak.values(), *chip.price, *([chip.link] if chip.link else [])]
            for fact in facts:
                if fact.source not in self.source:
                    raise ValueError(f"chip.{name} must name one of the sources of the table, got {fact.source!r}")


@functools.cache
def table() -> Table:
    """targets.toml, read and checked."""
    text = resources.files("torchport.check").joinpath("targets.toml").read_text(encoding="utf-8")
    return Table.model_validate(tomllib.loads(text))


def chips() -> dict[str, Chip]:
    """Every known chip by its short name: v6e, h100..."""
    return table().chip


class Target(BaseModel):
    """A machine to check for: a chip and how many of them, in which arrangement."""

    model_config = ConfigDict(frozen=True)

    name: str
    chip_name: str
    topology: str

    @property
    def chip(self) -> Chip:
        return chips()[self.chip_name]

    @property
    def num_chips(self) -> int:
        return prod(int(n) for n in self.topology.split("x"))

    @property
    def num_devices(self) -> int:
        """Devices as the compiler counts them; partitions of a program must be 1 or this many."""
        return self.num_chips * self.chip.devices_per_chip

    @property
    def device_hbm(self) -> float:
        """Bytes of memory of one device."""
        return self.chip.hbm.value / self.chip.devices_per_chip

    def device_peak(self, dtype: str) -> float | None:
        """FLOP/s of one device for matrix products of that kind; None where nobody publishes it."""
        fact = self.chip.peak.get(dtype)
        return fact.value / self.chip.devices_per_chip if fact else None

    @property
    def device_bandwidth(self) -> float:
        """Bytes/s between one device and its memory."""
        return self.chip.bandwidth.value / self.chip.devices_per_chip

    @property
    def topology_name(self) -> str:
        """As the plugin spells it."""
        return f"{self.chip.topology_prefix}:{self.topology}" if self.chip.topology_prefix else ""

    @property
    def options(self) -> list[tuple[str, str]]:
        """Create options of the plugin's topology."""
        config = self.chip.target_config
        return [("target_config", config.text()), ("topology", f"1x1x{self.num_chips}")] if config else []

    @property
    def price(self) -> Price | None:
        """The first dated price of the table."""
        return self.chip.price[0] if self.chip.price else None


def known() -> str:
    """All targets in one line, for messages."""
    return ", ".join(f"{chip.platform}:{name}" for name, chip in chips().items())


def target(name: str) -> Target:
    """`tpu:v6e`, `tpu:v6e:4x4`, `cuda:h100`, `cuda:h100:8`; TargetError when there is no such machine."""
    parts = name.strip().lower().split(":")
    if parts[0] == "trn":  # the family's own name
        parts[0] = "neuron"
    chip = chips().get(parts[1]) if len(parts) in (2, 3) else None
    if chip is None or chip.platform != parts[0]:
        raise TargetError(f"[--target] must be one of {known()}, each with or without :TOPOLOGY, got {name!r}")
    topology = parts[2] if len(parts) == 3 else chip.topology
    axes = 1 if not chip.topology_prefix else len(chip.topology.split("x"))
    form = "x".join("N" * axes)
    if not re.fullmatch(r"[1-9]\d{0,3}(x[1-9]\d{0,3})*", topology) or len(topology.split("x")) != axes:
        raise TargetError(
            f"[--target] must be {chip.platform}:{parts[1]}:{form} with positive numbers, got {name!r}. "
            f"Try: {chip.platform}:{parts[1]}:{chip.topology}"
        )
    return Target(name=":".join([chip.platform, parts[1], topology]), chip_name=parts[1], topology=topology)


def source(name: str) -> Source:
    """The source of that id."""
    return table().source[name]
