"""Several threads, loader workers, and fork."""

import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import target
from agree import data, python_ok

START = "import torch\n" if target.IS_CPU else "import torch, torchport\n"


def test_autograd_from_several_threads(dev):
    weight = data(dev, 8, 8, grad=True)
    inputs = [data(dev, 4, 8, seed=i) for i in range(8)]

    def work(x):
        for _ in range(5):
            (x @ weight).tanh().sum().backward()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, inputs))
    got = weight.grad.clone()
    weight.grad = None
    for x in inputs:
        for _ in range(5):
            (x @ weight).tanh().sum().backward()
    assert torch.allclose(got.cpu(), weight.grad.cpu(), rtol=1e-4, atol=1e-4)


def test_the_same_new_program_from_many_threads(dev):
    barrier = threading.Barrier(8)
    x = torch.arange(37.0, device=dev)

    def work(_):
        barrier.wait()
        return (x * 3 + 1).cumsum(0).flip(0)

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(work, range(8)))
    want = (torch.arange(37.0) * 3 + 1).cumsum(0).flip(0)
    assert all(torch.allclose(r.cpu(), want) for r in results)


def test_in_place_from_threads_on_different_tensors(dev):
    def work(k):
        x = torch.zeros(50, device=dev)
        for i in range(40):
            x[i] += k
            x.add_(1)
        return x

    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(work, range(6)))
    for k, x in enumerate(results):
        assert x.cpu()[0].item() == 40 + k
        assert x.cpu()[45].item() == 40


def test_modules_move_from_many_threads(dev):
    modules = [nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16)) for _ in range(12)]
    before = [m[0].weight.detach().clone() for m in modules]
    with ThreadPoolExecutor(12) as pool:
        moved = list(pool.map(lambda m: m.to(dev), modules))
    for module, weight in zip(moved, before, strict=True):
        assert module[0].weight.device.type == dev.type
        assert torch.equal(module[0].weight.cpu(), weight)


def test_state_dict_loads_in_threads(dev):
    shards = {f"k{i}": torch.full((64, 8), float(i)) for i in range(24)}
    with ThreadPoolExecutor(8) as pool:
        there = dict(pool.map(lambda item: (item[0], item[1].to(dev)), shards.items()))
    assert all(torch.equal(there[k].cpu(), v) for k, v in shards.items())


@pytest.mark.port
def test_current_device_is_a_threads_own(dev, port):
    seen = {}

    def work():
        seen["start"] = port.current_device()
        port.set_device(2)
        seen["after"] = torch.ones(1, device=dev.type).device.index

    with port.device(1):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert port.current_device() == 1
    assert seen == {"start": 0, "after": 2}


def test_an_exception_in_one_thread_stays_there(dev):
    def work(k):
        if k % 2:
            with pytest.raises(RuntimeError):
                torch.ones(3, device=dev) + torch.ones(4, device=dev)
        return (torch.ones(3, device=dev) * k).sum().item()

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(work, range(12))) == [3.0 * k for k in range(12)]


class Squares(Dataset):
    """Host tensors made in a worker."""

    def __len__(self):
        return 24

    def __getitem__(self, i):
        return torch.full((3,), float(i * i)), i


@pytest.mark.parametrize("workers", [0, 2])
def test_data_loader_with_pinned_memory(dev, workers):
    (torch.ones(2, device=dev) + 1).sum().item()  # the device is in use before the workers fork
    loader = DataLoader(Squares(), batch_size=5, num_workers=workers, pin_memory=True, persistent_workers=workers > 0)
    for _ in range(2):
        seen = []
        for batch, index in loader:
            there = batch.to(dev, non_blocking=True)
            assert torch.equal(there[:, 0].cpu(), (index * index).float())
            seen += index.tolist()
        assert seen == list(range(24))


@pytest.mark.port
def test_pinned_tensors(dev):
    x = torch.randn(100).pin_memory()
    assert x.is_pinned()
    assert torch.equal(x.to(dev, non_blocking=True).cpu(), x)
    assert not torch.randn(3).is_pinned()
    batch = next(iter(DataLoader(TensorDataset(torch.arange(8.0)), batch_size=4, pin_memory=True)))[0]
    assert batch.is_pinned()


@pytest.mark.port
def test_fork_after_use_is_refused(dev):
    code = f"""
{START}
import os
x = torch.ones(2, device={target.NAME!r}) + 1
pid = os.fork()
if pid == 0:
    try:
        (torch.ones(2, device={target.NAME!r}) + 1).sum().item()
        os._exit(1)
    except RuntimeError as error:
        message = str(error)
        os._exit(0 if "TP0330" in message and "spawn" in message else 2)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
assert (x + 1).tolist() == [3, 3]
print("parent lives")
"""
    assert "parent lives" in python_ok(code)


@pytest.mark.port
def test_fork_before_use_works(dev):
    code = f"""
{START}
import os
pid = os.fork()
total = (torch.ones(2, device={target.NAME!r}) + 1).sum().item()
if pid == 0:
    os._exit(0 if total == 4 else 1)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
print(total)
"""
    assert python_ok(code).strip() == "4.0"


def _spawned(queue, name):
    if name != "cpu":
        import torchport  # noqa: F401 (registers the device)
    queue.put((torch.ones(3, device=name) * 2).sum().item())


def test_spawned_processes_use_the_device(dev):
    (torch.ones(1, device=dev) + 1).item()
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    processes = [context.Process(target=_spawned, args=(queue, target.NAME)) for _ in range(2)]
    for process in processes:
        process.start()
    assert [queue.get(timeout=120) for _ in processes] == [6.0, 6.0]
    for process in processes:
        process.join(60)
        assert process.exitcode == 0


def test_exit_with_work_in_flight():
    code = f"""
{START}
x = torch.ones(400, 400, device={target.NAME!r})
for _ in range(20):
    x = x @ x * 1e-3
print("done")
"""
    assert "done" in python_ok(code)
