"""Debug mode waits after each op, looks for NaN and for indices out of range, and names the Python line."""

import pytest
import torch
from torch import nn

from agree import agree, data, python_ok

pytestmark = pytest.mark.port


@pytest.fixture
def debug():
    """Debug mode for one test."""
    import torchport

    with torchport.eager_mode("debug"):
        yield


def test_the_mode_is_set_for_good_or_for_a_block():
    import torchport

    assert torchport.eager_mode() == "strict"
    with torchport.eager_mode("debug"):
        assert torchport.eager_mode() == "debug"
        with torchport.eager_mode("strict"):
            assert torchport.eager_mode() == "strict"
        assert torchport.eager_mode() == "debug"
    assert torchport.eager_mode() == "strict"
    torchport.eager_mode("debug")
    assert torchport.eager_mode() == "debug"
    torchport.eager_mode("strict")
    with pytest.raises(RuntimeError), torchport.eager_mode("debug"):
        raise RuntimeError
    assert torchport.eager_mode() == "strict"
    with pytest.raises(ValueError, match="TP0340"):
        torchport.eager_mode("turbo")
    assert torchport.eager_mode() == "strict"


def test_the_environment_sets_the_first_mode():
    assert (
        python_ok("import torch, torchport; print(torchport.eager_mode())", TORCHPORT_EAGER="debug").strip() == "debug"
    )


def test_same_numbers(debug):
    def program(d):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3)).to(d)
        opt = torch.optim.AdamW(net.parameters())
        for i in range(2):
            opt.zero_grad()
            nn.functional.cross_entropy(net(data(d, 4, 6, seed=i)), torch.arange(4, device=d) % 3).backward()
            opt.step()
        return list(net.parameters())

    agree(program)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: torch.log(x - 5),
        lambda x: (x - 1) / (x - 1),
        lambda x: torch.sqrt(-x),
        lambda x: x * 1e38 * 1e38 - x * 1e38 * 1e38,
    ],
)
def test_new_nan_is_found_where_it_arises(dev, debug, make):
    x = torch.ones(4, device=dev)
    with pytest.raises(RuntimeError, match=r"^\[.+\] .+ \(TP0151\)") as caught:
        make(x)
    assert "test_debug_mode.py:" in str(caught.value)
    assert (x + 1).sum().item() == 8


def test_nan_in_the_backward_is_found(dev, debug):
    x = torch.zeros(3, device=dev, requires_grad=True)
    y = torch.sqrt(x)
    with pytest.raises(RuntimeError, match="TP0151"):
        (y * torch.zeros(3, device=dev)).sum().backward()


def test_nan_that_was_there_before_is_not_reported(dev, debug):
    x = torch.tensor([float("nan"), float("inf"), 1.0], device=dev)
    y = (x + 1).clone() * 2
    assert y.cpu()[2].item() == 4
    assert torch.full((2,), float("nan"), device=dev).isnan().all()
    assert torch.where(x.isnan(), 0.0, x).cpu()[0].item() == 0
    mask = torch.zeros(2, 2, device=dev).masked_fill(torch.eye(2, device=dev).bool(), float("-inf"))
    assert torch.softmax(mask, -1).cpu().tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize(
    "call",
    [
        lambda x, i: x[i],
        lambda x, i: x.index_select(0, i),
        lambda x, i: x.gather(0, i[:, None]),
        lambda x, i: nn.functional.embedding(i, x),
        lambda x, i: x.scatter(0, i[:, None], 1.0),
        lambda x, i: x.index_add(0, i, x[: len(i)]),
        lambda x, i: x.index_put((i,), torch.zeros((), device=x.device)),
    ],
)
def test_index_out_of_range_names_the_line(dev, debug, call):
    x, i = torch.ones(4, 3, device=dev), torch.tensor([1, 9], device=dev)
    with pytest.raises((IndexError, RuntimeError)) as caught:
        call(x, i)
    assert "test_debug_mode.py:" in str(caught.value)
    assert (x + 1).sum().item() == 24
