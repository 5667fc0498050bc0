"""python/torchport/ops.json, which docs/ops.md shows: what it says of the code is what the code does."""

import json
import zlib

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

import target
from conformance import modes, targets, write
from conformance.compare import TOLERANCES, StridesDiffer
from conformance.record import Rows
from ops.case import op_infos
from ops.cases import CASES
from torchport import optable

LOOKED_AT = 12  # cases of the table that are run again here; all of them: make conformance-full
NOT_LOWERED = {"copy_"}  # written by core/aten itself
DATA = optable.load()
ENTRIES = optable.entries(DATA)


def test_the_table_has_every_op_of_the_database():
    known = {op.full_name for op in op_db} | {case.name for case in CASES if case.custom}
    names = {entry.name for entry in ENTRIES}
    assert sorted(names - known) == [], "these ops are in the table only"
    dtypes = {getattr(torch, dtype) for dtype in optable.SHORT}
    runs = {
        op.full_name for op in op_db if dtypes & set(op.supported_dtypes("cpu"))
    }  # some are for CUDA or float8 only
    assert sorted(runs - names) == [], "these ops are not in the table. Try: make ops-table"


def test_the_tolerances_are_those_of_the_code():
    assert DATA["torch"].partition("+")[0] == torch.__version__.partition("+")[0]
    assert {name: tuple(tol) for name, tol in DATA["tolerances"].items()} == {
        str(dtype).removeprefix("torch."): tol for dtype, tol in TOLERANCES.items()
    }
    assert DATA["looser"] == {case.name: [case.tol, case.why] for case in CASES if case.tol is not None}


@pytest.mark.port
def test_what_the_table_runs_on_the_cpu_has_no_lowering():
    import torchport

    lowered = {name for row in torchport.ops() for name in row["overloads"]}
    stale = {name: entry.name for entry in ENTRIES for name in entry.fallbacks if name in lowered}
    assert stale == {}, "the table says that these run on the CPU, but they have a lowering. Try: make ops-table"


@pytest.mark.port
def test_the_lowerings_of_the_table_exist():
    import torchport

    known = {name for row in torchport.ops() for name in [row["name"], *row["overloads"]]}
    named = {name: entry.name for entry in ENTRIES for name in entry.lowerings}
    missing = {name: op for name, op in named.items() if name not in known | NOT_LOWERED}
    assert missing == {}, "the table names lowerings that are no more. Try: make ops-table"


def looked_at() -> list[tuple[str, str, str, str]]:
    """Cases that agree, spread over the table in an order that looks random and never changes."""
    cases = [
        (entry.name, dtype, mode, state[i])
        for entry in ENTRIES
        for dtype, state in entry.states.items()
        for i, mode in enumerate(optable.MODES)
        if state[i] in "yc" and entry.name in op_infos()
    ]
    return sorted(cases, key=lambda case: zlib.crc32("|".join(case).encode()))[:LOOKED_AT]


@pytest.mark.port
@pytest.mark.parametrize("name,dtype,mode,state", looked_at(), ids=lambda value: str(value))
def test_the_table_says_what_happens(name: str, dtype: str, mode: str, state: str):
    op, kind = op_infos()[name], getattr(torch, dtype)
    target.reset_fallbacks()
    compared = [run_one(op, sample, kind, mode) for sample in modes.samples(op, kind, mode, 1)]
    if any(compared):
        assert bool(target.fallbacks()) <= (state == "c"), "falls back, the table says it does not. Try: make ops-table"


def run_one(op, sample, dtype: torch.dtype, mode: str) -> bool:
    try:
        return modes.MODES[mode](op, sample, dtype, target.DEVICE)
    except StridesDiffer:
        return True


def test_rows_become_a_table(tmp_path):
    row = {"op": "tan", "dtype": "float32", "mode": "forward", "message": "", "samples": 1, "fallbacks": []}
    programs = {"a.mlir": "tan", "b.mlir": "tan", "c.mlir": "copy_"}
    rows = [
        {**row, "result": "pass", "programs": programs},
        {
            **row,
            "result": "pass",
            "mode": "backward",
            "fallbacks": ["aten::tan_backward"],
            "programs": {"b.mlir": "tan"},
        },
        {**row, "result": "fail", "mode": "out"},
        {**row, "result": "skip", "mode": "inplace"},
        {**row, "result": "pass", "dtype": "any", "mode": "errors"},
        {**row, "result": "fail", "dtype": "any", "mode": "errors"},
    ]
    chosen = targets.chosen(rows)
    assert chosen == {("tan", "float32", "forward"): ["a.mlir", "c.mlir"], ("tan", "float32", "backward"): ["b.mlir"]}
    compiled = {"compiled": ["tan|float32|forward"], "refused": {"tan|float32|backward": "refused: no"}}
    found = write.ops(Rows({}, rows), compiled, {"cos": {"states": {"y---": "bool"}}})
    assert found["cos"], "ops that a run did not touch stay"
    path = tmp_path / "ops.json"
    path.write_text(write.dumps({"head": 1, "ops": found}))
    _, entry = optable.entries(json.loads(path.read_text()))
    assert entry.states == {"float32": "ycn-"}
    assert entry.target == {"float32": "yn--"}
    assert (entry.where("yc"), entry.where("n")) == ("fb: f32", "o: f32")
    assert (entry.lowerings, entry.fallbacks, entry.wrong_calls) == (["copy_", "tan"], ["tan_backward"], (1, 2))
    assert entry.row()["v6e"] == "not b: f32"
    assert optable.totals([entry]) == {"agree": (2, 3), "no_fallback": (0, 1), "wrong_calls": (1, 2), "compile": (1, 2)}
