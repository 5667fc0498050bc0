"""Views share memory: a write through any alias shows through every other, as on the CPU."""

import pytest
import torch

from agree import agree, data

# name: a view of a (4, 6) tensor
VIEWS = {
    "view": lambda x: x.view(3, 8),
    "view_minus_one": lambda x: x.view(-1),
    "reshape": lambda x: x.reshape(2, 12),
    "flatten": lambda x: x.flatten(),
    "unflatten": lambda x: x.unflatten(1, (2, 3)),
    "select": lambda x: x.select(0, 2),
    "select_last": lambda x: x[:, -1],
    "slice": lambda x: x[1:3],
    "slice_step": lambda x: x[::2, 1::3],
    "narrow": lambda x: x.narrow(1, 2, 3),
    "transpose": lambda x: x.transpose(0, 1),
    "t": lambda x: x.t(),
    "mT": lambda x: x.mT,
    "T": lambda x: x.T,
    "permute": lambda x: x.view(2, 2, 6).permute(2, 0, 1),
    "movedim": lambda x: x.view(2, 2, 6).movedim(2, 0),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "squeeze": lambda x: x.view(4, 1, 6).squeeze(1),
    "squeeze_all": lambda x: x.view(1, 4, 1, 6).squeeze(),
    "none_index": lambda x: x[None, :, None],
    "diagonal": lambda x: x.diagonal(),
    "diagonal_offset": lambda x: x.diagonal(1),
    "diagonal_below": lambda x: x.diagonal(-2),
    "unfold": lambda x: x.unfold(1, 2, 2),
    "as_strided": lambda x: x.as_strided((2, 3), (7, 2), 1),
    "as_strided_whole": lambda x: x.as_strided((6, 4), (1, 6)),
    "split": lambda x: x.split(2, 1)[1],
    "split_sizes": lambda x: x.split([1, 3], 0)[1],
    "chunk": lambda x: x.chunk(3, 1)[2],
    "tensor_split": lambda x: x.tensor_split(3)[1],
    "hsplit": lambda x: x.hsplit(2)[0],
    "unbind": lambda x: x.unbind(1)[4],
    "detach": lambda x: x.detach(),
    "data": lambda x: x.data,
    "view_as": lambda x: x.view_as(torch.empty(4, 6)),
    "alias": lambda x: torch.ops.aten.alias(x),
    "chained": lambda x: x[1:].t()[::2].unsqueeze(0)[..., 1],
    "chained_diagonal": lambda x: x[:, 1:5].diagonal().view(2, 2).t(),
    "ellipsis": lambda x: x.view(2, 2, 6)[..., 1, 2:4],
    "zero_dim": lambda x: x[2, 3],
    "empty": lambda x: x[:, 3:3],
    "view_dtype_same_size": lambda x: x.view(torch.int32),
    "view_dtype_smaller": lambda x: x.view(torch.int16),
    "view_dtype_larger": lambda x: x.view(torch.float64),
    "view_bytes": lambda x: x.view(torch.uint8)[:, 2:9:3],
}
WRITES = {
    "fill": lambda v: v.fill_(7),
    "zero": lambda v: v.zero_(),
    "add": lambda v: v.add_(1),
    "mul": lambda v: v.mul_(2),
    "copy": lambda v: v.copy_(torch.arange(v.numel(), device=v.device).view(v.shape)),
    "assign": lambda v: v.__setitem__(..., 3),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("view", VIEWS)
def test_write_through_a_view_shows_in_the_base(dev, view, write):
    def program(d):
        base = data(d, 4, 6)
        other = base.T
        v = VIEWS[view](base)
        WRITES[write](v)
        return base, v, other

    agree(program)


@pytest.mark.parametrize("view", VIEWS)
def test_write_to_the_base_shows_in_the_view(dev, view):
    def program(d):
        base = data(d, 4, 6)
        v = VIEWS[view](base)
        before = v.clone()
        base[1:3].mul_(3)
        base[:, 2] = 5
        return before, v

    agree(program)


@pytest.mark.parametrize("view", VIEWS)
def test_metadata_is_the_cpus(dev, view):
    want, got = VIEWS[view](data("cpu", 4, 6)), VIEWS[view](base := data(dev, 4, 6))
    assert (got.shape, got.stride(), got.storage_offset()) == (want.shape, want.stride(), want.storage_offset())
    assert got.is_contiguous() == want.is_contiguous()
    assert got._is_view() == want._is_view()
    assert got.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()
    assert got.data_ptr() - base.data_ptr() == got.storage_offset() * got.element_size() or got.numel() == 0


# Views of several outputs refuse in-place writes under autograd; the others named here carry no gradient.
MULTIPLE = ("split", "split_sizes", "chunk", "unbind")
NO_GRADIENT = ("view_dtype_same_size", "view_dtype_smaller", "view_dtype_larger", "view_bytes", "data", "detach")


@pytest.mark.parametrize("view", [name for name in VIEWS if name not in MULTIPLE + NO_GRADIENT])
def test_gradients_through_views_and_in_place(dev, view):
    def program(d):
        leaf = data(d, 4, 6, grad=True)
        base = leaf * 2
        VIEWS[view](base).mul_(3)
        (base * data(d, 4, 6, seed=1)).sum().backward()
        return base, leaf.grad

    agree(program)


@pytest.mark.parametrize("view", MULTIPLE)
def test_views_of_several_outputs(dev, view):
    def program(d):
        leaf = data(d, 4, 6, grad=True)
        (VIEWS[view](leaf * 2) ** 2).sum().backward()
        return leaf.grad

    agree(program)
    with pytest.raises(RuntimeError, match="is a view and is being modified inplace"):
        VIEWS[view](data(dev, 4, 6, grad=True) * 2).mul_(3)


def test_version_counters(dev):
    x = data(dev, 4, 6)
    v = x[1]
    start = x._version
    v.add_(1)
    assert x._version == v._version == start + 1
    x.data.add_(1)
    assert x._version == start + 1
    x.mul_(2)
    assert v._version == start + 2


def test_overlapping_slices(dev):
    def program(d):
        x = torch.arange(12.0, device=d)
        x[4:10].copy_(x[0:6].clone())
        a, b = x[2:8], x[5:11]
        a.add_(b.flip(0))
        y = torch.arange(6, device=d)
        y[1:] = y[:-1].clone()
        y[:3] += y[3:]
        return x, a, b, y

    agree(program)


def test_memory_overlap_is_refused(dev):
    x = torch.ones(4, device=dev)
    with pytest.raises(RuntimeError, match=r"more than one element|single memory location"):
        x.expand(3, 4).add_(1)
    with pytest.raises(RuntimeError, match=r"single memory location|overlap"):
        x[1:].add_(x[:-1])
    with pytest.raises(RuntimeError, match=r"single memory location|overlap"):
        torch.mul(x[:-1], 2, out=x[1:])


def test_expand_reads_what_the_base_holds(dev):
    def program(d):
        x = data(d, 3, 1)
        wide = x.expand(2, 3, 4)
        x.mul_(2)
        return wide, wide + 1, wide.sum(-1), wide.contiguous().view(-1)

    agree(program)


def test_set_swaps_the_storage(dev):
    def program(d):
        x, y = data(d, 4, 6), data(d, 5, seed=1)
        alias = x[0]
        x.set_(y)
        x.add_(1)
        z = torch.empty(0, device=d).set_(y.untyped_storage(), 1, (2, 2), (2, 1))
        z.mul_(10)
        return x, y, alias, z

    agree(program)


def test_data_assignment(dev):
    def program(d):
        x = data(d, 3, grad=True)
        alias = x.detach()
        x.data = data(d, 3, seed=1)
        x.data.mul_(2)
        (x * x).sum().backward()
        return x, alias, x.grad

    agree(program)


def test_swap_tensors(dev):
    def program(d):
        x, y = data(d, 3), data(d, 2, 2, seed=1)
        torch.utils.swap_tensors(x, y)
        return x, y

    agree(program)


@pytest.mark.parametrize("format", [torch.channels_last, torch.contiguous_format])
def test_memory_formats(dev, format):
    def program(d):
        x = data(d, 2, 3, 4, 5).to(memory_format=format)
        y = x.clone().relu()
        assert x.is_contiguous(memory_format=format)
        x[:, 1].zero_()
        x.permute(0, 2, 3, 1).reshape(-1, 3)[::2] += 1
        z = torch.empty_like(x)
        assert z.is_contiguous(memory_format=format)
        return x, y, x.stride(), x.contiguous(), x + x.contiguous()

    agree(program)


def test_channels_last_3d(dev):
    def program(d):
        x = data(d, 2, 3, 2, 4, 5).to(memory_format=torch.channels_last_3d)
        x[:, :, 1].mul_(2)
        return x, x.stride(), x.clone().stride()

    agree(program)


def test_out_into_views(dev):
    def program(d):
        base, a = torch.zeros(4, 6, device=d), data(d, 4, 3)
        torch.exp(a, out=base[:, ::2])
        torch.add(a, 1, out=base[:, 1::2])
        torch.mm(a.T, a, out=base[:3, :3])
        torch.sum(a, 0, out=base[3, :3])
        return base

    agree(program)


def test_out_resizes_an_empty_tensor(dev):
    def program(d):
        out = torch.empty(0, device=d)
        torch.add(data(d, 2, 3), 1, out=out)
        return out

    agree(program)


def test_views_of_views_after_resize(dev):
    def program(d):
        x = torch.arange(6.0, device=d)
        v = x[2:4]
        x.resize_(3, 4)
        x[1:] = 9
        v.add_(100)
        return x.view(-1)[:6], v

    agree(program)


def test_complex_views(dev):
    def program(d):
        x = torch.complex(data(d, 3, 4), data(d, 3, 4, seed=1))
        x.real.mul_(2)
        x.imag[1].zero_()
        pairs = torch.view_as_real(x)
        pairs[..., 0].add_(1)
        back = torch.view_as_complex(pairs)
        back.mul_(1j)
        c = x.conj()
        c.add_(1 - 2j)
        x.imag.neg_()
        return x, pairs, c, c.resolve_conj(), x.conj().imag

    agree(program)


def test_masked_and_indexed_writes_through_views(dev):
    def program(d):
        base = data(d, 4, 6)
        v = base.t()[1:5]
        v[v > 0] = 0
        v[[0, 2]] += 1
        v.index_fill_(1, torch.tensor([0, 3], device=d), 8)
        v[1].scatter_(0, torch.tensor([2, 1], device=d), 5.0)
        v.masked_fill_(v < -1, -1)
        v.index_put_(
            (torch.tensor([0, 0], device=d), torch.tensor([1, 1], device=d)), torch.ones(2, device=d), accumulate=True
        )
        return base, v

    agree(program)


def test_sort_and_cumsum_in_place_through_views(dev):
    def program(d):
        base = data(d, 4, 6)
        base[1].cumsum_(0)
        base.T[2].copy_(base.T[2].sort().values)
        base[:, 1::2].cumprod_(1)
        base[2:].uniform_(0, 0)
        return base

    agree(program)


def test_moving_window_loop(dev):
    def program(d):
        x, y = data(d, 10, 4), torch.zeros(10, 4, device=d)
        for i in range(1, 9):
            y[i] = x[i - 1 : i + 2].mean(0) + y[i - 1]
        return y

    agree(program)
