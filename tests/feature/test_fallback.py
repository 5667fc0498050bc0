"""Ops without a lowering run on the CPU, right and counted; TORCHPORT_FALLBACK=error refuses them."""

import json

import pytest
import torch

import target
from agree import agree, data, python, python_ok

# Ops that a device's table is least likely to have; the first one without a lowering serves these tests.
CANDIDATES = {
    "geqrf": lambda x: torch.geqrf(x)[0],
    "linalg_eig": lambda x: torch.linalg.eig(x[:4])[0].abs().sort().values,
    "linalg_lstsq": lambda x: torch.linalg.lstsq(x, x)[0],
}
SOURCE = {
    "geqrf": "torch.geqrf(x)",
    "linalg_eig": "torch.linalg.eig(x[:4])",
    "linalg_lstsq": "torch.linalg.lstsq(x, x)",
}


@pytest.fixture
def missing() -> str:
    """Base name of an op without a lowering."""
    import torchport

    have = {row["name"].partition(".")[0] for row in torchport.ops()}
    return next(name for name in CANDIDATES if name not in have)


@pytest.mark.port
def test_it_is_right_and_counted(dev, missing):
    import torchport

    run, x = CANDIDATES[missing], data(dev, 5, 4)
    torchport.reset_report()
    for _ in range(3):
        got = run(x)  # the line that the report names
    assert torch.allclose(got.cpu(), run(data("cpu", 5, 4)), atol=1e-4)
    assert got.device == x.device
    rows = [row for row in torchport.report()["fallbacks"] if missing in row["op"]]
    assert len(rows) == 1
    row = rows[0]
    assert row["count"] == 3
    assert row["bytes"] >= 3 * 16 * 4
    assert row["ms"] >= 0
    assert any("test_fallback.py:" in line for line in row["lines"]), row["lines"]
    assert missing in str(torchport.report())
    torchport.reset_report()
    assert torchport.report()["fallbacks"] == []


@pytest.mark.port
def test_ops_with_a_lowering_are_not_counted(dev):
    import torchport

    torchport.reset_report()
    x = data(dev, 4, 4)
    (x @ x + 1).relu().sum(0).cumsum(0).sort().values.tolist()
    assert torchport.report()["fallbacks"] == []


def test_out_and_views(dev):
    def program(d):
        base, a, tau = torch.zeros(8, 10, device=d), data(d, 4, 5), torch.empty(0, device=d)
        torch.geqrf(a, out=(base[::2, 1::2], tau))
        torch.linalg.cholesky(a @ a.T + torch.eye(4, device=d), out=base[1::2, :4])
        base[0, :4] += torch.linalg.eigvalsh(base[1::2, :4])
        return base, tau

    agree(program)


def test_linear_algebra_and_gradients(dev):
    def program(d):
        a = data(d, 4, 4, grad=True)
        spd = a @ a.T + 4 * torch.eye(4, device=d)
        w, v = torch.linalg.eigh(spd)
        (w.sum() + torch.linalg.slogdet(spd).logabsdet + torch.linalg.svdvals(a).sum()).backward()
        return w, v.abs(), a.grad, torch.linalg.lstsq(spd.detach(), data(d, 4, 2)).solution

    agree(program, tol=1e-3)


def test_lists_and_several_outputs(dev):
    def program(d):
        x = data(d, 20)
        counts, edges = torch.histogram(x.cpu(), 4)
        return torch.histc(x, 4), counts, edges, torch.linalg.ldl_factor_ex(torch.eye(3, device=d)).LD

    agree(program)


@pytest.mark.port
def test_refusal(missing):
    code = f"""
import torch, torchport
x = torch.rand(5, 4, device={target.NAME!r})
try:
    {SOURCE[missing]}
except NotImplementedError as error:
    print(error)
assert (x * 0 + 1).sum().item() == 20
"""
    message = python_ok(code, TORCHPORT_FALLBACK="error")
    assert "(TP0131)" in message
    assert missing in message
    assert message.startswith("[")


@pytest.mark.port
def test_the_report_is_written_at_exit(tmp_path, missing):
    path = tmp_path / "report.json"
    code = f"""
import torch, torchport
x = torch.rand(5, 4, device={target.NAME!r})
{SOURCE[missing]}
"""
    python_ok(code, TORCHPORT_REPORT=str(path))
    report = json.loads(path.read_text())
    assert [row["count"] for row in report["fallbacks"] if missing in row["op"]] == [1]
    assert report["programs_compiled"] >= 1


@pytest.mark.port
def test_a_wrong_setting_is_refused():
    done = python("import torch, torchport; torch.ones(2, device='tpu') + 1", TORCHPORT_FALLBACK="perhaps")
    assert done.returncode != 0
    assert "TP0340" in done.stderr
    assert "allow|error" in done.stderr
