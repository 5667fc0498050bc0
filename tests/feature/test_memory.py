"""Memory figures through torch.accelerator and torch.<device>."""

import gc

import pytest
import torch

pytestmark = pytest.mark.port
MB = 1 << 20
SMALL = 4096  # numbers that were sent to the device are kept for the next use, a few bytes each


@pytest.fixture(params=["module", "accelerator"])
def memory(request, port):
    """The namespace with memory_allocated and kin."""
    return port if request.param == "module" else torch.accelerator


def settle() -> None:
    """Everything freed is accounted for."""
    gc.collect()
    torch.accelerator.synchronize()


def test_allocated_follows_the_tensors(dev, memory):
    settle()
    start = memory.memory_allocated()
    x = torch.ones(MB, device=dev)
    y = x * 2
    settle()
    assert 8 * MB <= memory.memory_allocated() - start < 8 * MB + SMALL
    del x
    settle()
    assert 4 * MB <= memory.memory_allocated() - start < 4 * MB + SMALL
    del y
    settle()
    assert 0 <= memory.memory_allocated() - start < SMALL


def test_views_and_reshapes_cost_nothing(dev, memory):
    x = torch.ones(MB, device=dev)
    settle()
    start = memory.memory_allocated()
    views = [x.view(1024, -1).t(), x[5:], x.detach(), x.expand(4, MB)]
    settle()
    assert memory.memory_allocated() == start
    assert len(views) == 4


def test_peak(dev, memory):
    settle()
    memory.reset_peak_memory_stats()
    start = memory.memory_allocated()
    assert memory.max_memory_allocated() == start
    x = torch.ones(4 * MB, device=dev)
    settle()
    del x
    settle()
    assert memory.max_memory_allocated() - start >= 16 * MB
    assert memory.memory_allocated() == start
    memory.reset_peak_memory_stats()
    assert memory.max_memory_allocated() == start


def test_reserved_is_at_least_allocated(dev, memory):
    x = torch.ones(MB, device=dev)
    settle()
    assert memory.memory_reserved() >= memory.memory_allocated() >= x.nbytes
    assert memory.max_memory_reserved() >= memory.max_memory_allocated()


def test_stats_have_cudas_keys(dev, memory):
    x = torch.ones(MB, device=dev)
    settle()
    stats = memory.memory_stats()
    for key in ("current", "peak", "allocated", "freed"):
        assert f"allocated_bytes.all.{key}" in stats
        assert f"reserved_bytes.all.{key}" in stats
    assert stats["allocated_bytes.all.current"] == memory.memory_allocated()
    assert stats["allocated_bytes.all.allocated"] - stats["allocated_bytes.all.freed"] >= x.nbytes
    memory.reset_accumulated_memory_stats()
    assert memory.memory_stats()["allocated_bytes.all.freed"] == 0


def test_empty_cache(dev, memory):
    x = torch.ones(MB, device=dev)
    del x
    settle()
    memory.empty_cache()
    assert memory.memory_reserved() <= memory.max_memory_reserved()


def test_each_device_counts_for_itself(dev, memory):
    settle()
    before = [memory.memory_allocated(i) for i in range(2)]
    x = torch.ones(MB, device=f"{dev.type}:1")
    settle()
    assert memory.memory_allocated(0) == before[0]
    assert memory.memory_allocated(f"{dev.type}:1") - before[1] == x.nbytes


def test_module_extras(dev, port):
    free, total = port.mem_get_info()
    assert 0 < free <= total
    assert "allocated_bytes" in port.memory_summary()
    assert port.memory_stats_as_nested_dict()["allocated_bytes"]["all"]["current"] == port.memory_allocated()
    with pytest.warns(FutureWarning):
        port.reset_max_memory_allocated()


def test_a_training_loop_does_not_grow(dev, port):
    net = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).to(dev)
    opt = torch.optim.AdamW(net.parameters())

    def step() -> None:
        opt.zero_grad()
        net(torch.ones(16, 32, device=dev)).pow(2).mean().backward()
        opt.step()

    for _ in range(5):
        step()
    settle()
    start = port.memory_allocated()
    for _ in range(50):
        step()
    settle()
    assert port.memory_allocated() - start < SMALL
