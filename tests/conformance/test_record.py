"""What a run keeps on disk and how the next one goes on; causes of differences; what of a result is compared."""

import json
import re
from pathlib import Path

import pytest
import torch
from torch.testing._internal.opinfo.core import SampleInput

from conformance import modes
from conformance.causes import Cause, Causes
from conformance.compare import assert_same, assert_strides, nearer
from conformance.invariants import invariant, random_sample
from conformance.pool import Task
from conformance.record import Record, read
from conformance.summary import caused
from ops.case import op_infos

HEAD = {"torch": "2", "build": "a"}


def row(op: str = "tan", result: str = "pass", message: str = "", mode: str = "forward") -> dict:
    return {"op": op, "dtype": "float32", "mode": mode, "result": result, "message": message, "samples": 1}


def filled(path: Path) -> Path:
    with Record(path, HEAD, resume=False) as record:
        record.add(row("tan"))
        record.done(Task("tan", "float32", ["forward"]))
        record.add(row("cos"))
    return path


def test_an_interrupted_run_goes_on(tmp_path):
    path = filled(tmp_path / "rows.jsonl")
    with open(path, "a") as file:
        file.write('{"op": "co')  # torn by a kill
    with Record(path, HEAD, resume=True) as record:
        assert record.has(Task("tan", "float32", ["forward"]))
        assert not record.has(Task("cos", "float32", ["forward"]))
        assert [kept["op"] for kept in record.rows] == ["tan"], "what an unfinished task left is run again"
        record.add(row("cos"))
        record.done(Task("cos", "float32", ["forward"]))
    assert sorted(kept["op"] for kept in read(path).rows) == ["cos", "tan"]


def test_another_build_starts_over(tmp_path, capsys):
    path = filled(tmp_path / "rows.jsonl")
    with Record(path, {**HEAD, "build": "b"}, resume=True) as record:
        assert record.rows == []
    assert "another build" in capsys.readouterr().err


def test_a_file_of_something_else_is_refused(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("no JSON\n")
    with pytest.raises(SystemExit, match="must hold JSON lines"):
        read(path)


def test_every_failure_needs_a_cause_and_every_cause_a_failure():
    rows = [row(), row("eigh", "fail", "signs"), row("cos", "fail", "off by one")]
    signs = Cause("signs are free", op="eig.*", message="signs")
    assert caused(rows, Causes([signs]), complete=True)[1] == 1
    text, wrong = caused(rows, Causes([signs, Cause("late", op="cos"), Cause("idle", op="sin")]), complete=True)
    assert wrong == 1
    assert "idle" in text
    assert caused(rows, Causes([signs, Cause("late", op="cos"), Cause("idle", op="sin")]), complete=False)[1] == 0


def test_the_causes_are_well_formed(tmp_path):
    op_names = op_infos().keys() | {"any"}
    for cause in Causes.load():
        assert cause.op == ".*" or any(re.fullmatch(cause.op, name) for name in op_names), cause
    path = tmp_path / "causes.toml"
    for text, said in [
        ("op='a'", "say a cause"),
        ("cause='x'", "name ops or a message"),
        ("cause='x'\nops='a'", "keys"),
    ]:
        path.write_text(f"[[causes]]\n{text}\n")
        with pytest.raises(ValueError, match=said):
            Causes.load(path)


def test_equal_elements_may_come_in_any_order():
    x = torch.tensor([[2.0, 1.0, 2.0, 1.0]])
    values, indices = x.sort()
    other = (values, torch.tensor([[3, 1, 0, 2]]))
    wrong = (values, torch.tensor([[3, 3, 0, 2]]))
    free, fixed = SampleInput(x), SampleInput(x, kwargs={"dim": -1, "stable": True})
    compare = invariant("sort")
    assert_same(compare(free, (values, indices)), compare(free, other), torch.float32)
    for sample, result in ((free, wrong), (free, (values, indices.flip(1))), (fixed, other)):
        with pytest.raises(AssertionError):
            assert_same(compare(sample, (values, indices)), compare(sample, result), torch.float32)


@pytest.mark.parametrize(
    "name", ["topk", "kthvalue", "median", "nanmedian", "mode", "argsort", "linalg.svd", "linalg.eigh"]
)
def test_invariants_accept_the_reference_itself(name: str):
    op = op_infos()[name]
    compared = [
        modes.forward(op, sample, torch.float32, "cpu") for sample in modes.samples(op, torch.float32, "forward", 0)
    ]
    assert any(compared)


def test_dropout_in_attention_is_random():
    op = op_infos()["nn.functional.scaled_dot_product_attention"]
    found = {random_sample(op.full_name, sample) for sample in modes.samples(op, torch.float32, "forward", 0)}
    assert found == {True, False}
    assert not random_sample("tan", SampleInput(torch.ones(1)))


def test_strides_of_one_element_are_free():
    x = torch.ones(3, 1)
    assert_strides(x, x.as_strided((3, 1), (1, 7)))
    with pytest.raises(AssertionError, match="strides"):
        assert_strides(torch.ones(3, 2), torch.ones(2, 3).T)


def test_arguments_keep_their_memory():
    base = torch.arange(12.0)
    sample = SampleInput(base[1::2], args=(base[:6], base.expand(2, 12)))
    call = modes.Call(op_infos()["add"], sample, "cpu")
    assert call.input.stride() == (2,)
    assert call.args[1].stride() == (0, 1)
    call.args[0].zero_()
    assert call.input[:3].tolist() == [0, 0, 0], "two views of one storage stay views of one storage"
    assert base[1] == 1


def test_wrong_calls_are_compared_by_type(monkeypatch):
    op = op_infos()["gather"]
    assert [result for result, _ in modes.errors(op, "cpu")].count("pass") > 0
    real, calls = modes.raised, []

    def other(call) -> type | None:
        calls.append(real(call))
        return KeyError if len(calls) % 2 == 0 else calls[-1]

    monkeypatch.setattr(modes, "raised", other)
    assert {result for result, _ in modes.errors(op, "cpu")} == {"fail"}


def test_rows_are_json(tmp_path):
    lines = filled(tmp_path / "rows.jsonl").read_text().splitlines()
    assert [next(iter(json.loads(line))) for line in lines] == ["head", "op", "finished", "op"]


def test_a_device_may_be_nearer_than_the_cpu():
    exact, host = torch.tensor([1.0, 2.0]).double(), torch.tensor([1.0, 2.1])
    assert nearer(exact, host, torch.tensor([1.05, 2.0]))
    assert not nearer(exact, host, torch.tensor([1.0, 2.2]))
    assert not nearer(exact, torch.tensor([1.0, float("nan")]), host)
    assert not nearer(torch.tensor([3]), torch.tensor([3]), torch.tensor([4])), "integers are exact already"
