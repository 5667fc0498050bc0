"""nn.Module on the device: moving, identity of parameters, tied weights, optimisers made before the move."""

import pytest
import torch
from torch import nn

from agree import agree, data


class Tied(nn.Module):
    """An embedding whose weight is also the output layer's."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(7, 4)
        self.out = nn.Linear(4, 7, bias=False)
        self.out.weight = self.embed.weight
        self.register_buffer("table", torch.arange(7.0))
        self.register_buffer("hidden", torch.ones(1), persistent=False)

    def forward(self, ids):
        return self.out(self.embed(ids)) + self.table


def test_to_keeps_the_parameter_objects(dev):
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    before = list(net.parameters())
    assert net.to(dev) is net
    assert all(p is q for p, q in zip(before, net.parameters(), strict=True))
    assert all(p.device.type == dev.type and p.is_leaf and p.requires_grad for p in before)
    assert {b.device.type for b in net.buffers()} == {dev.type}
    net.to("cpu")
    assert all(p is q and p.device.type == "cpu" for p, q in zip(before, net.parameters(), strict=True))


def test_optimizer_made_before_the_move_still_trains(dev):
    def program(d):
        torch.manual_seed(0)
        net = nn.Linear(3, 2)
        opt = torch.optim.Adam(net.parameters(), lr=0.1)
        net.to(d)
        for _ in range(3):
            opt.zero_grad()
            net(data(d, 4, 3)).pow(2).mean().backward()
            opt.step()
        assert all(p.device.type == d.type for group in opt.param_groups for p in group["params"])
        return list(net.parameters())

    agree(program)


def test_gradients_move_too(dev):
    net = nn.Linear(3, 2)
    net(torch.ones(1, 3)).sum().backward()
    want = net.weight.grad.clone()
    net.to(dev)
    assert net.weight.grad.device.type == dev.type
    assert torch.equal(net.weight.grad.cpu(), want)


def test_tied_weights_stay_tied(dev):
    def program(d):
        torch.manual_seed(0)
        net = Tied().to(d)
        assert net.out.weight is net.embed.weight
        net(torch.tensor([1, 2, 1], device=d)).sum().backward()
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        opt.step()
        assert net.hidden.device.type == d.type
        assert "hidden" not in net.state_dict()
        return net.out.weight, net.embed.weight.grad, net.state_dict()

    agree(program)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_dtype_and_device_together(dev, dtype):
    net = Tied().to(dev, dtype)
    assert {t.dtype for t in [*net.parameters(), *net.buffers()]} == {dtype}
    assert net.out.weight is net.embed.weight
    assert net.float().out.weight.dtype == torch.float32


def test_channels_last_module(dev):
    def program(d):
        torch.manual_seed(0)
        net = nn.Conv2d(3, 4, 3).to(d, memory_format=torch.channels_last)
        assert net.weight.is_contiguous(memory_format=torch.channels_last)
        return net(data(d, 2, 3, 6, 6).to(memory_format=torch.channels_last))

    agree(program)


def test_meta_to_empty_and_assign(dev):
    with torch.device("meta"):
        net = nn.Linear(3, 2)
    net.to_empty(device=dev)
    assert net.weight.device.type == dev.type
    state = nn.Linear(3, 2).state_dict()
    net.load_state_dict({k: v.to(dev) for k, v in state.items()}, assign=True)
    assert torch.equal(net.weight.cpu(), state["weight"])


def test_train_eval_and_running_statistics(dev):
    def program(d):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU()).to(d)
        for i in range(3):
            net(data(d, 4, 2, 6, 6, seed=i))
        net.eval()
        return net(data(d, 4, 2, 6, 6)), net[1].running_mean, net[1].running_var, net[1].num_batches_tracked

    agree(program)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_recurrent_layers(dev, kind, bidirectional):
    def program(d):
        torch.manual_seed(0)
        net = getattr(nn, kind)(3, 4, num_layers=2, bidirectional=bidirectional, batch_first=True).to(d)
        out, state = net(data(d, 2, 5, 3))
        out.pow(2).sum().backward()
        return out, state, [p.grad for p in net.parameters()]

    agree(program)


def test_packed_sequences(dev):
    def program(d):
        torch.manual_seed(0)
        net = nn.LSTM(3, 4).to(d)
        packed = nn.utils.rnn.pack_padded_sequence(data(d, 5, 3, 3), torch.tensor([5, 3, 2]))
        out, _ = nn.utils.rnn.pad_packed_sequence(net(packed)[0])
        return out

    agree(program)


def test_transformer_layer(dev):
    def program(d):
        torch.manual_seed(0)
        net = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True).to(d)
        x = data(d, 2, 5, 8, grad=True)
        mask = nn.Transformer.generate_square_subsequent_mask(5, device=d)
        net(x, src_mask=mask, is_causal=True).pow(2).mean().backward()
        net.eval()
        with torch.no_grad():
            fast = net(x)
        return x.grad, [p.grad for p in net.parameters()], fast

    agree(program)


@pytest.mark.parametrize("backend", ["MATH", "DEFAULT"])
@pytest.mark.parametrize("causal", [False, True])
def test_attention(dev, causal, backend):
    def program(d):
        q, k, v = (data(d, 2, 4, 6, 8, seed=i, grad=True) for i in range(3))
        attend = lambda: nn.functional.scaled_dot_product_attention(
            q, k[:, :2], v[:, :2], is_causal=causal, enable_gqa=True
        )
        if backend == "MATH":
            with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
                out = attend()
        else:
            out = attend()
        out.pow(2).sum().backward()
        return out, q.grad, k.grad, v.grad

    agree(program)


def test_parametrizations_and_hooks_survive(dev):
    def program(d):
        torch.manual_seed(0)
        net = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2)).to(d)
        spectral = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3)).eval().to(d)
        net(data(d, 4, 3)).sum().backward()
        return [p.grad for p in net.parameters()], spectral(data(d, 4, 3))

    agree(program)
