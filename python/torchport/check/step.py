"""One program out of the launches of a step, and what can be counted in it.

Each launched program becomes a private function; the main function calls them in order, its arguments are the buffers
that the step found, its results those that the next step reads or nobody in the step did. So a target's compiler sees
the step as a whole, as it would see it under torch.compile.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from dataclasses import dataclass, field
from math import prod
from typing import Any

_SIZES = {"i1": 1, "i8": 1, "ui8": 1, "i16": 2, "ui16": 2, "i32": 4, "ui32": 4, "i64": 8, "ui64": 8, "f16": 2,
          "bf16": 2, "f32": 4, "f64": 8, "complex<f32>": 8, "complex<f64>": 16, "f8E4M3FN": 1, "f8E5M2": 1}  # fmt: skip
_SIGNATURE = re.compile(r"func\.func @main\((.*?)\) -> \((.*)\) \{$", re.MULTILINE)
_TENSOR = re.compile(r"tensor<((?:\d+x)*)([^<>]+(?:<[^<>]+>)?)>")
_DOT = re.compile(r'"stablehlo\.dot_general".*?lhs_contracting_dimensions = \[([\d, ]*)\].*: \((.*)\) -> (tensor<\S+>)')
_CONV = re.compile(r'"stablehlo\.convolution".*?\]x\[([^\]]*)\]->.*: \((.*)\) -> (tensor<\S+>)')


def parse(text: str) -> tuple[tuple[int, ...], str]:
    """Dims and element type of `tensor<8x16xf32>`."""
    found = _TENSOR.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"[step] must be a ranked tensor type, got {text}")
    return tuple(int(n) for n in found[1].split("x") if n), found[2]


@functools.cache
def size(text: str) -> int:
    """Bytes of a value of that type."""
    dims, element = parse(text)
    return prod(dims) * _SIZES[element]


def _types(text: str) -> list[str]:
    return [found[0] for found in _TENSOR.finditer(text)]


@dataclass
class Program:
    """A captured program: its function, and the matrix products in it by element type and precision."""

    name: str
    line: str
    text: str
    aliases: list[list[int]]
    arguments: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    flops: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        found = _SIGNATURE.search(self.text)
        if found is None:
            raise ValueError(f"[step] must be a program with a main function, got {self.text[:80]!r}")
        self.arguments, self.results = _types(found[1]), _types(found[2])
        for row in self.text.splitlines():
            if "stablehlo.dot_general" in row and (dot := _DOT.search(row)):
                left, out = _types(dot[2])[0], dot[3]
                dims, element = parse(left)
                deep = prod(dims[int(k)] for k in dot[1].split(",") if k.strip())
                self.flops[self._kind(element, row)] += 2 * prod(parse(out)[0]) * deep
            elif "stablehlo.convolution" in row and (conv := _CONV.search(row)):
                kernel = parse(_types(conv[2])[1])[0]
                labels = [label.strip() for label in conv[1].split(",")]
                per_output = prod(kernel) // max(kernel[labels.index("o")], 1)
                self.flops[self._kind(parse(_types(conv[2])[0])[1], row)] += 2 * prod(parse(conv[3])[0]) * per_output

    @staticmethod
    def _kind(element: str, row: str) -> str:
        """f32 products count by precision: it decides how many passes a matrix unit makes."""
        if element != "f32":
            return element
        return next((f"f32 {p}" for p in ("HIGHEST", "HIGH") if f"precision {p}>" in row), "f32 DEFAULT")

    def function(self, name: str) -> str:
        """The program as a private function of that name."""
        names = ", ".join(f"%{k}: {t}" for k, t in enumerate(self.arguments))
        head, body = _SIGNATURE.search(self.text), self.text
        assert head is not None
        own = re.findall(r"(%\w+): tensor", head[1])
        inner = body[head.end() : body.rstrip().rfind("}")]
        renamed = ", ".join(f"{own[k]}: {t}" for k, t in enumerate(self.arguments)) if own else names
        return f"func.func private @{name}({renamed}) -> ({', '.join(self.results)}) {{{inner}"

    @property
    def bytes(self) -> int:
        """What it reads and writes when it is launched by itself."""
        return sum(map(size, self.arguments)) + sum(map(size, self.results))


@dataclass
class Step:
    """One step: the text of its program, and what was counted."""

    text: str
    programs: list[Program]
    launches: Counter[int]
    arguments: list[str]
    results: list[str]
    donated_bytes: int
    fresh: list[str]  # types of the arguments that come from the host in each step: the batch
    live: list[tuple[int, str]]  # bytes held after each launch, as a fused program would hold them, and the op
    kind: str

    @functools.cached_property
    def flops(self) -> Counter[str]:
        """Floating-point operations of matrix products, by element type and precision."""
        total: Counter[str] = Counter()
        for index, times in self.launches.items():
            for kind, n in self.programs[index].flops.items():
                total[kind] += n * times
        return total

    @property
    def argument_bytes(self) -> int:
        return sum(map(size, self.arguments))

    @property
    def result_bytes(self) -> int:
        return sum(map(size, self.results))

    @property
    def peak_bytes(self) -> int:
        """The most that must be held at once: arguments and every value between its making and its last use."""
        return max((b for b, _ in self.live), default=self.argument_bytes)

    @property
    def eager_bytes(self) -> int:
        """Memory traffic when every op is launched by itself."""
        return sum(self.programs[i].bytes * n for i, n in self.launches.items())

    @property
    def samples(self) -> int | None:
        """Leading dimension of the batch; None when nothing comes from the host."""
        return next((parse(t)[0][0] for t in self.fresh if len(parse(t)[0]) >= 1), None)

    @property
    def tokens(self) -> int | None:
        """Sequences times length when the batch is a matrix of integers."""
        for t in self.fresh:
            dims, element = parse(t)
            if len(dims) == 2 and element in ("i64", "i32"):
                return dims[0] * dims[1]
        return None

    def elements(self) -> Counter[str]:
        """Launches by the element types that occur in them."""
        found: Counter[str] = Counter()
        for index, times in self.launches.items():
            for element in {m[2] for m in _TENSOR.finditer(self.programs[index].text)}:
                found[element] += times
        return found


def segments(capture: dict[str, Any]) -> tuple[str, list[int], list[dict[str, int]]]:
    """train, infer or whole; where each step ends among the launches; the counters there."""
    for kind in ("train", "infer"):
        if marks := capture["marks"][kind]:
            return kind, [m["launches"] for m in marks], marks
    return "whole", [len(capture["launches"])], []


def build(capture: dict[str, Any]) -> Step:
    """The last step whose successor was seen too. ValueError when nothing was launched on the device."""
    kind, ends, _ = segments(capture)
    launches = capture["launches"]
    if not launches:
        raise ValueError("[check] must be a script that computes on the device, got one that launched nothing on it")
    chosen = max(len(ends) - 2, 0)
    begin = ends[chosen - 1] if chosen else 0
    own, after = launches[begin : ends[chosen]], launches[ends[chosen] :]
    if chosen + 1 < len(ends):
        after = launches[ends[chosen] : ends[chosen + 1]]
    if not own:  # modules were called, but nothing of theirs ran on the device
        own, after, begin = launches, [], 0
    return assemble(capture, own, after, {s for row in launches[:begin] for s in [*row[1], *row[2]]}, kind)


def assemble(capture: dict[str, Any], own: list[Any], after: list[Any], before: set[int], kind: str) -> Step:
    """own: the step's launches (program, inputs, outputs, bytes); after: the next step's; before: buffers seen earlier."""
    used = sorted({row[0] for row in own})
    if used[0] < 0:
        raise ValueError("[check] must capture every program of the step, got one compiled before the capture began")
    programs = {
        i: Program(p["name"], p["line"], p["text"], p["aliases"]) for i in used for p in [capture["programs"][i]]
    }
    arguments: dict[int, str] = {}
    values: dict[int, tuple[str, str]] = {}  # serial -> name, type
    root: dict[int, int] = {}
    read: set[int] = set()
    body: list[str] = []
    for number, (index, ins, outs, _) in enumerate(own):
        program = programs[index]
        operands = []
        for serial, wanted in zip(ins, program.arguments, strict=True):
            if serial not in values:
                arguments[serial] = wanted
                values[serial] = (f"%a{len(arguments) - 1}", wanted)
            name, have = values[serial]
            read.add(serial)
            if have != wanted:  # one buffer, two shapes
                body.append(f'%v{len(body)} = "stablehlo.reshape"({name}) : ({have}) -> {wanted}')
                name = f"%v{len(body) - 1}"
            operands.append(name)
        count = f":{len(outs)}" if len(outs) > 1 else ""
        types = f"({', '.join(program.arguments)}) -> ({', '.join(program.results)})"
        left = f"%r{number}{count} = " if outs else ""
        body.append(f"{left}func.call @p{index}({', '.join(operands)}) : {types}")
        for k, (serial, result) in enumerate(zip(outs, program.results, strict=True)):
            values[serial] = (f"%r{number}" + (f"#{k}" if count else ""), result)
        for argument, output in program.aliases:
            root[outs[output]] = root.get(ins[argument], ins[argument])
    produced = {serial for row in own for serial in row[2]}
    later = {serial for row in after for serial in row[1]}
    results = [s for s in dict.fromkeys(s for row in own for s in row[2]) if s in later or s not in read]
    alias: dict[int, int] = {}
    for position, serial in enumerate(results):
        origin = root.get(serial)
        if origin in arguments and origin not in alias and arguments[origin] == values[serial][1]:
            alias[origin] = position
    heads = []
    for serial, text in arguments.items():
        mark = f" {{tf.aliasing_output = {alias[serial]} : i32}}" if serial in alias else ""
        heads.append(f"{values[serial][0]}: {text}{mark}")
    kinds = [values[s][1] for s in results]
    names = ", ".join(values[s][0] for s in results)
    main = [f"func.func public @main({', '.join(heads)}) -> ({', '.join(kinds)}) {{", *body]
    main += [f"return {names} : {', '.join(kinds)}" if results else "return", "}"]
    functions = [programs[i].function(f"p{i}") for i in used]
    text = "module @step {\n" + "\n".join([*main, *functions]) + "\n}\n"
    listed = list(programs.values())
    order = {index: k for k, index in enumerate(used)}
    words = {ins[-1] for index, ins, _, _ in own if len(ins) and programs[index].arguments[-1].endswith("xi32>")}
    fresh = [t for s, t in arguments.items() if s not in before and s not in words and parse(t)[0]]
    donated = sum(size(arguments[s]) for s in alias)
    return Step(
        text, listed, Counter(order[row[0]] for row in own), list(arguments.values()), kinds, donated, fresh,
        _live(own, programs, arguments, values, set(results), set(alias), produced), kind,
    )  # fmt: skip


def _live(own: list[Any], programs: dict[int, Program], arguments: dict[int, str], values: dict[int, tuple[str, str]],
          kept: set[int], donated: set[int], produced: set[int]) -> list[tuple[int, str]]:  # fmt: skip
    """Bytes held after each launch: a value lives from its making to its last use, an argument throughout."""
    last = {serial: n for n, row in enumerate(own) for serial in row[1]}
    held = sum(map(size, arguments.values()))
    curve = []
    for n, (index, ins, outs, _) in enumerate(own):
        replaced = {outs[o] for a, o in programs[index].aliases if ins[a] in produced | donated}
        held += sum(size(values[s][1]) for s in outs if s not in replaced)
        gone = {s for s in [*ins, *outs] if s in produced and s not in kept and last.get(s, n) <= n}
        taken = {ins[a] for a, _ in programs[index].aliases}
        curve.append((held, programs[index].name))
        held -= sum(size(values[s][1]) for s in gone - taken)
    return curve
