"""Storages: sizes, sharing, resizing, setting, raw copies."""

import pytest
import torch

from agree import agree, data


def test_size_and_sharing(dev):
    x = torch.ones(4, 6, device=dev)
    storage = x.untyped_storage()
    assert storage.nbytes() == 96
    assert storage.device == x.device
    assert len(x.storage()) == 24
    assert storage.data_ptr() == x[1:].untyped_storage().data_ptr() == x.data_ptr()
    assert x[1:].data_ptr() == x.data_ptr() + 24
    assert x.clone().data_ptr() != x.data_ptr()
    y = torch.ones(3, device=dev)
    assert y.untyped_storage().data_ptr() != storage.data_ptr()
    assert x.is_set_to(x.view(4, 6))
    assert not x.is_set_to(x.clone())


def test_pointers_of_live_tensors_differ_and_empty_ones_are_null(dev):
    live = [torch.empty(n, device=dev) for n in (1, 2, 1000, 1, 2)]
    assert len({t.data_ptr() for t in live}) == len(live)
    assert torch.empty(0, device=dev).data_ptr() == 0


def test_in_place_ops_keep_the_pointer(dev):
    x = torch.ones(10, device=dev)
    pointer = x.data_ptr()
    x.add_(1).mul_(2).zero_()
    x[3:] = 4
    torch.exp(x.clone(), out=x)
    assert x.data_ptr() == pointer


def test_resize_keeps_the_front(dev):
    def program(d):
        x = torch.arange(6.0, device=d)
        x.resize_(2)
        kept = x.clone()
        x.resize_(6)
        y = torch.arange(4, device=d)
        y.resize_(10)[4:] = -1
        return kept, x, y, x.untyped_storage().nbytes(), y.untyped_storage().nbytes()

    agree(program)


def test_untyped_resize(dev):
    x = torch.arange(4.0, device=dev)
    storage = x.untyped_storage()
    storage.resize_(0)
    assert storage.nbytes() == 0
    storage.resize_(16)
    x.copy_(torch.arange(4.0) + 1)
    assert x.tolist() == [1, 2, 3, 4]
    storage.resize_(32)
    assert x.tolist() == [1, 2, 3, 4]


def test_resize_as(dev):
    def program(d):
        return torch.empty(0, device=d).resize_as_(data(d, 2, 3)).fill_(2)

    agree(program)


def test_storage_copy_fill_clone(dev):
    x, y = data(dev, 8), torch.zeros(8, device=dev)
    y.untyped_storage().copy_(x.untyped_storage())
    assert torch.equal(x, y)
    z = torch.empty(0, device=dev).set_(x.untyped_storage().clone(), 0, (8,))
    z.zero_()
    assert not torch.equal(x, z)
    assert torch.equal(torch.tensor(x.cpu().untyped_storage()), torch.tensor(x.untyped_storage().cpu()))
    x.untyped_storage().fill_(0)
    assert x.abs().sum().item() == 0


def test_storages_move(dev):
    x = data("cpu", 5)
    moved = x.untyped_storage().to(device=dev) if hasattr(x.untyped_storage(), "to") else x.untyped_storage()
    assert moved.device.type == dev.type
    assert torch.equal(torch.empty(0, device=dev).set_(moved, 0, (5,)).cpu(), x)


def test_set_checks(dev):
    x = torch.ones(4, device=dev)
    with pytest.raises(RuntimeError):
        torch.empty(0, device=dev).set_(x.untyped_storage(), 0, (-1,), (1,))
    with pytest.raises(RuntimeError):
        torch.empty(0, dtype=torch.int64, device=dev).set_(x)
    assert torch.equal(x + 1, torch.full((4,), 2.0, device=dev))


def test_a_storage_outlives_its_tensor(dev):
    x = torch.arange(6.0, device=dev)
    storage = x.untyped_storage()
    x.add_(1)
    del x
    again = torch.empty(0, device=dev).set_(storage, 2, (2, 2), (2, 1))
    assert again.tolist() == [[3, 4], [5, 6]]
