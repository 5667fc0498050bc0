"""Random programs: statements drawn from the grammar, run on the CPU while they are drawn, then replayed on the device."""

import ast
import inspect
import re
from dataclasses import dataclass, field
from typing import Any

import torch
from hypothesis import assume
from hypothesis import strategies as st

from conformance.compare import TOLERANCES, strides
from fuzz import values
from fuzz.grammar import RULES, Rule
from fuzz.places import DTYPES, FLOATS, PLACES, SHAPES
from fuzz.regressions import avoided

MAX_ELEMENTS = 600
STATEMENTS = 8
MISSING = "<none>"  # stands where a program has no tensor for a place
KINDS = [rule for rule in RULES for _ in range(rule.weight)]


@dataclass(frozen=True)
class Statement:
    """One line, and the type of exception that it raises on the CPU, if any."""

    text: str
    raises: str = ""


@dataclass
class Program:
    """Statements and the variables that they leave on the CPU."""

    statements: list[Statement] = field(default_factory=list)
    variables: dict[str, torch.Tensor] = field(default_factory=dict)
    rounded: set[int] = field(default_factory=set)  # storages whose numbers carry rounding errors
    largest: float = 1.0  # of all finite numbers seen: an error of one of them may be left in a small result

    def run(self, text: str) -> bool:
        """Runs a statement on the CPU and keeps it, unless its result is larger than a program should hold."""
        scope = environment("cpu") | self.variables
        error = execute(text, scope)
        made = {name: value for name, value in scope.items() if re.fullmatch(r"t\d+", name)}
        if any(not isinstance(t, torch.Tensor) or max(t.numel(), *t.shape, 0) > MAX_ELEMENTS for t in made.values()):
            assume(made.keys() - self.variables)  # a tensor of the program that has grown cannot be taken back
            return False
        self.variables = made
        self.statements.append(Statement(text, type(error).__name__ if error else ""))
        for tensor in made.values():
            finite = tensor.detach().abs().double() if tensor.dtype is not torch.bool else torch.zeros(1)
            finite = finite[finite.isfinite()]
            self.largest = max(self.largest, finite.max().item() if finite.numel() else 0.0)
        return True


def environment(device: Any) -> dict[str, Any]:
    """The names that a statement may use beside the program's variables."""
    return {"torch": torch, "make": values.make, "device": device}


def execute(text: str, scope: dict[str, Any]) -> Exception | None:
    """Runs one statement; the exception that it raises."""
    try:
        exec(text, scope)  # noqa: S102 (the text is ours)
    except Exception as error:  # noqa: BLE001 (what it raises is part of its result)
        return error
    return None


def storage(tensor: torch.Tensor) -> int:
    """What two tensors have in common when they share memory."""
    return tensor.untyped_storage()._cdata


def is_avoided(text: str) -> bool:
    """Whether a statement would meet a difference that is known and still open."""
    pattern = avoided()
    return pattern is not None and pattern.search(text) is not None


# ---- drawing ---------------------------------------------------------------------------------------------------------


def _initial(draw: Any, name: str, like: torch.Tensor | None) -> str:
    """A tensor to begin with; the second often has a shape that broadcasts with the first, or its dtype."""
    shape = draw(st.sampled_from(SHAPES))
    dtype = draw(st.sampled_from([*FLOATS[:2], *DTYPES]))
    if like is not None and draw(st.booleans()):
        shape = tuple(like.shape)[draw(st.integers(0, like.dim())) :]
    kinds = ["ramp", "steps"]
    if dtype in FLOATS:
        kinds += ["halves", "corners"]
    elif dtype == "bool":
        kinds = ["mask"]
    elif dtype != "complex64":
        kinds += ["limits"]
    return f"{name} = make({draw(st.sampled_from(kinds))!r}, {shape}, torch.{dtype}, device)"


def _broadcasts(a: torch.Tensor, b: torch.Tensor) -> bool:
    return all(m == n or 1 in (m, n) for m, n in zip(a.shape[::-1], b.shape[::-1], strict=False))


def _other(draw: Any, place: str, x: str, known: dict[str, torch.Tensor]) -> str | None:
    """A tensor of the program for a place of a template."""
    tensor = known[x]
    if place == "x":
        return x
    if place == "w":
        apart = [name for name, t in known.items() if storage(t) != storage(tensor)]
        return draw(st.sampled_from(apart)) if apart else None
    if draw(st.integers(0, 15)) == 15:  # at times one that does not fit, whose error must be the CPU's
        return draw(st.sampled_from(sorted(known)))
    if place == "m":
        masks = [name for name, t in known.items() if t.dtype is torch.bool and t.shape == tensor.shape]
        return draw(st.sampled_from([*masks, f"make('mask', {tuple(tensor.shape)}, torch.bool, device)"]))
    return draw(st.sampled_from([name for name, t in known.items() if _broadcasts(tensor, t)]))


def _apart_or_same(x: torch.Tensor, other: torch.Tensor, text: str) -> bool:
    """Whether a write to x may read the other tensor: C++ does not say in which order overlapping parts are written."""
    same = (x.shape, x.stride(), x.storage_offset()) == (other.shape, other.stride(), other.storage_offset())
    return storage(x) != storage(other) or (same and "[" not in text and "out=" not in text)


def _statement(draw: Any, program: Program, rule: Rule) -> str | None:
    """The text of a statement of one kind; None where the drawn tensors do not suit it."""
    known, used = program.variables, []
    fitting = [name for name, t in known.items() if rule.condition(t)]
    if not fitting:
        return None
    x = draw(st.sampled_from(fitting))
    template = draw(st.sampled_from(rule.templates))

    def fill(match: re.Match) -> str:
        place = match[1]
        if place not in ("x", "y", "w", "m"):
            return str(PLACES[place](draw, known[x].detach()))
        name = _other(draw, place, x, known)
        used.extend([name] if name in known else [])
        return name or MISSING

    text = re.sub(r"\{(\w+)\}", fill, template)
    if MISSING in text:
        return None
    tensors = [known[name] for name in dict.fromkeys([x, *used])]
    if not rule.condition(*tensors):
        return None
    if rule.makes == 0 and not all(_apart_or_same(known[x], t, text) for t in tensors[1:]):
        return None
    if not rule.continuous and any(storage(t) in program.rounded for t in tensors):
        return None
    names = [f"t{len(known) + i}" for i in range(rule.makes)]
    text = f"{', '.join(names)} = {text}" if names else text
    return None if is_avoided(text) else text


def _note_rounding(program: Program, rule: Rule, text: str, before: dict[str, torch.Tensor]) -> None:
    """Marks the storages whose numbers this statement may have rounded in its own way."""
    names = re.findall(r"\bt\d+\b", text)
    lossy = rule.rounds or any(storage(before[name]) in program.rounded for name in names if name in before)
    for name in names:
        tensor = program.variables.get(name)
        changed = name not in before or rule.makes == 0
        if tensor is not None and changed and ((lossy and tensor.is_floating_point()) or tensor.is_complex()):
            program.rounded.add(storage(tensor))


@st.composite
def programs(draw: Any) -> Program:
    """A program of a few tensors and up to STATEMENTS statements, and a backward pass where something wants one."""
    program = Program()
    for index in range(draw(st.integers(1, 2))):
        first = program.variables.get("t0")
        text = _initial(draw, f"t{index}", first)
        assume(not is_avoided(text) and program.run(text))
        tensor = program.variables[f"t{index}"]
        if tensor.is_floating_point() and draw(st.booleans()):
            program.run(f"t{index}.requires_grad_()")
        if tensor.is_complex():
            program.rounded.add(storage(tensor))
    for _ in range(draw(st.integers(1, STATEMENTS))):
        rule = draw(st.sampled_from(KINDS))
        text = _statement(draw, program, rule)
        if text is not None:
            before = dict(program.variables)
            if program.run(text):
                _note_rounding(program, rule, text, before)
    wanting = [name for name, t in program.variables.items() if t.requires_grad and t.is_floating_point()]
    if wanting:
        program.run(f"({' + '.join(f'{name}.double().sum()' for name in wanting)}).backward()")
    return program


# ---- comparing -------------------------------------------------------------------------------------------------------


class Difference(AssertionError):
    """The device does otherwise than the CPU."""


def check(program: Program, device: torch.device, ignore: frozenset[str] = frozenset()) -> None:
    """Replays a program on the device; raises Difference, whose message ends with a script that shows it.

    ignore: {"strides"} leaves out the memory format of tensors that are no views of others.
    """
    try:
        _check(program, device, ignore)
    except Difference as difference:
        raise Difference(f"{difference}\n\n{script(program, device)}") from None


def _check(program: Program, device: torch.device, ignore: frozenset[str]) -> None:
    scope = environment(device)
    for statement in program.statements:
        error = execute(statement.text, scope)
        got = type(error).__name__ if error else ""
        if got != statement.raises:
            words = f": {' '.join(str(error).split())[:300]}" if error else ""
            raise Difference(
                f"`{statement.text}` raises {got or 'nothing'}{words}\nwants {statement.raises or 'nothing'}"
            )
    found = {name: scope[name] for name in program.variables}
    if (got := aliases(found)) != (want := aliases(program.variables)):
        raise Difference(f"tensors that share memory: {got}, wants {want}")
    for name, want in program.variables.items():
        _same(program, name, want, found[name], steps="strides" not in ignore)
        if want.is_leaf and want.requires_grad:
            if (want.grad is None) != (found[name].grad is None):
                raise Difference(f"{name}.grad is {found[name].grad}, wants {want.grad}")
            if want.grad is not None:
                _same(program, f"{name}.grad", want.grad, found[name].grad, rounded=True, steps=False)


def aliases(variables: dict[str, torch.Tensor]) -> list[list[str]]:
    """The groups of variables that share a storage."""
    groups: dict[int, list[str]] = {}
    for name, tensor in variables.items():
        groups.setdefault(storage(tensor), []).append(name)
    return sorted(groups.values())


def _same(
    program: Program, name: str, want: torch.Tensor, got: torch.Tensor, rounded: bool = False, steps: bool = True
) -> None:
    """One variable against the CPU's."""
    for what in ("dtype", "shape", "requires_grad", "is_leaf"):
        if getattr(want, what) != getattr(got, what):
            raise Difference(f"{name}.{what} is {getattr(got, what)}, wants {getattr(want, what)}")
    if steps and (strides(want), want.storage_offset()) != (strides(got), got.storage_offset()):
        raise Difference(
            f"{name} has strides {got.stride()} and offset {got.storage_offset()}, wants {want.stride()} and"
            f" {want.storage_offset()}, shape {tuple(want.shape)}"
        )
    want, got = want.detach().resolve_conj().resolve_neg(), got.detach().cpu().resolve_conj().resolve_neg()
    rounded |= storage(program.variables.get(name, want)) in program.rounded
    tolerance = TOLERANCES.get(want.dtype, (0.0, 0.0))[0] if rounded else 0.0
    loosest = max((TOLERANCES[t.dtype][0] for t in program.variables.values() if t.dtype in TOLERANCES), default=0.0)
    tolerance = max(tolerance, loosest) if rounded and tolerance else tolerance
    try:
        torch.testing.assert_close(
            got, want, rtol=tolerance, atol=tolerance * program.largest, equal_nan=True, check_stride=False
        )
    except AssertionError as error:
        raise Difference(
            f"{name}: {' '.join(str(error).split())}\n  got   {got.tolist()}\n  wants {want.tolist()}"
        ) from None


def script(program: Program, device: torch.device) -> str:
    """The program as a script of its own, which prints both devices' results."""
    lines = []
    for statement in program.statements:
        if statement.raises:
            lines += [
                "try:",
                f"    {statement.text}",
                "except Exception as error:",
                "    print(type(error).__name__, error)",
            ]
        else:
            lines.append(statement.text)
    body = "\n".join(f"    {line}" for line in lines)
    names = ", ".join(program.variables)
    source = inspect.getsource(values).partition('"""\n\n')[2]
    return f"""{source}

def program(device):
{body}
    return {{name: t for name, t in locals().items() if isinstance(t, torch.Tensor)}}


for device in ("cpu", "{device.type}"):
    print(device)
    for name, t in program(device).items():
        print(name, t.dtype, tuple(t.shape), t.stride(), t.detach().cpu().tolist(), t.grad if t.is_leaf else "")
# variables: {names}
"""


def replay(source: str, rounded: bool = False) -> Program:
    """A program from the text of its statements, one a line, run on the CPU: how regression tests are written.

    rounded: floating results may differ within the tolerance of their dtype.
    """
    program = Program()
    for node in ast.parse(source).body:
        program.run(ast.unparse(node))
    if rounded:
        program.rounded = {storage(tensor) for tensor in program.variables.values()}
    return program
