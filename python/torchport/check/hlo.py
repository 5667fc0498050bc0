"""Counting in an optimised program: bytes moved, collectives, the biggest values.

Reads a serialised HloModuleProto by its field numbers (xla/service/hlo.proto), which protobuf never changes, so that no
generated code is needed. At the top level of an optimised program every operand and result passes through the device's
memory; inside a fusion nothing does.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from typing import Any

# PrimitiveType of xla_data.proto: (name, bits)
_TYPES = {
    1: ("pred", 8), 2: ("s8", 8), 3: ("s16", 16), 4: ("s32", 32), 5: ("s64", 64), 6: ("u8", 8), 7: ("u16", 16),
    8: ("u32", 32), 9: ("u64", 64), 10: ("f16", 16), 11: ("f32", 32), 12: ("f64", 64), 15: ("c64", 64),
    16: ("bf16", 16), 18: ("c128", 128), 19: ("f8e5m2", 8), 20: ("f8e4m3fn", 8), 21: ("s4", 4), 22: ("u4", 4),
}  # fmt: skip
_FREE = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "iota", "partition-id"}
_COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
_CALLS = {"while", "call", "conditional"}
BIGGEST = 8


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, at
        shift += 7


def _fields(data: memoryview) -> Iterator[tuple[int, Any]]:
    """(number, value) of each field: an int, or a memoryview for what has a length."""
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield tag >> 3, value
        elif kind == 2:
            size, at = _varint(data, at)
            yield tag >> 3, data[at : at + size]
            at += size
        else:
            width = 8 if kind == 1 else 4
            yield tag >> 3, struct.unpack("<q" if width == 8 else "<i", data[at : at + width])[0]
            at += width


def _numbers(value: Any) -> list[int]:
    """A repeated integer, packed or not."""
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        number, at = _varint(value, at)
        found.append(number)
    return found


def _shape(data: memoryview) -> tuple[int, str]:
    """Bytes and text of a ShapeProto; a tuple's bytes are those of its parts."""
    element, dims, parts = 0, [], []
    for number, value in _fields(data):
        if number == 2:
            element = value
        elif number == 3:
            dims += _numbers(value)
        elif number == 4:
            parts.append(_shape(value))
    if parts:
        return sum(size for size, _ in parts), "(" + ", ".join(text for _, text in parts) + ")"
    name, bits = _TYPES.get(element, ("token", 0))
    size = bits
    for n in dims:
        size *= n
    return (size + 7) // 8, f"{name}[{','.join(map(str, dims))}]"


class _Instruction:
    __slots__ = ("bytes", "called", "id", "name", "op", "operands", "shape", "trips", "where")

    def __init__(self, data: memoryview) -> None:
        self.bytes, self.shape, self.called, self.operands = 0, "", [], []
        self.name = self.op = self.where = ""
        self.id = self.trips = 0
        for number, value in _fields(data):
            if number == 1:
                self.name = bytes(value).decode()
            elif number == 2:
                self.op = bytes(value).decode()
            elif number == 3:
                self.bytes, self.shape = _shape(value)
            elif number == 7:
                self.where = next((bytes(v).decode(errors="replace") for n, v in _fields(value) if n == 2), "")
            elif number == 35:
                self.id = value
            elif number == 36:
                self.operands += _numbers(value)
            elif number == 38:
                self.called += _numbers(value)
            elif number == 43:  # backend_config; a while loop's holds {"known_trip_count":{"n":"32"}}
                self.trips = _trips(bytes(value))


def _trips(config: bytes) -> int:
    mark = b'"known_trip_count":{"n":"'
    at = config.find(mark)
    return int(config[at + len(mark) :].split(b'"', 1)[0]) if at >= 0 else 0


def summary(module: bytes) -> dict[str, Any]:
    """Bytes accessed, collective bytes and counts, and the biggest values of an optimised program (one device)."""
    computations: dict[int, list[_Instruction]] = {}
    entry = 0
    for number, value in _fields(memoryview(module)):
        if number == 3:
            found, own = [], 0
            for inner, part in _fields(value):
                if inner == 2:
                    found.append(_Instruction(part))
                elif inner == 5:
                    own = part
            computations[own] = found
        elif number == 6:
            entry = value
    totals = {"bytes": 0.0, "links": 0.0}
    kinds: Counter[str] = Counter()
    biggest: list[_Instruction] = []

    def walk(computation: int, times: int) -> None:
        instructions = computations.get(computation, [])
        size = {i.id: i.bytes for i in instructions}
        for i in instructions:
            if i.op in _CALLS:
                for called in i.called:
                    walk(called, times * max(i.trips, 1))
                continue
            kind = next((c for c in _COLLECTIVES if i.op.startswith(c)), None)
            if kind and not i.op.endswith("-done"):
                kinds[kind] += times
                totals["links"] += times * max(i.bytes, sum(size.get(o, 0) for o in i.operands))
            if i.op in _FREE or i.op.endswith("-done"):
                continue
            totals["bytes"] += times * (i.bytes + sum(size.get(o, 0) for o in i.operands))
            if not i.op.endswith("-start"):  # a start's tuple names its operand again
                biggest.append(i)

    walk(entry, 1)
    biggest += [i for i in computations.get(entry, []) if i.op == "parameter"]
    biggest.sort(key=lambda i: -i.bytes)
    return {
        "bytes_accessed": totals["bytes"],
        "collective_bytes": totals["links"],
        "collectives": dict(kinds),
        "biggest": [
            {"name": i.where or i.name, "op": i.op, "shape": i.shape[:120], "bytes": i.bytes} for i in biggest[:BIGGEST]
        ],
    }
