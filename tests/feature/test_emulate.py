"""TORCHPORT_EMULATE: the emulation's programs keep another platform's limits, and give the same values."""

import pytest

from agree import python, python_ok

pytestmark = pytest.mark.port

WIDE = """
import torch
import torch.nn.functional as F
torch.manual_seed(0)
big = lambda *shape: torch.randint(-(2**62), 2**62, shape)
x, y = big(3, 4), big(4, 5)
stack, other = big(2, 6, 3, 4), big(2, 6, 4, 5)
line, image, volume = big(2, 4, 9), big(2, 4, 9, 8), big(2, 2, 5, 4, 6)
cases = {
    "mm": (torch.mm, x, y),
    "mv": (torch.mv, x, y[:, 0]),
    "dot": (torch.dot, x[0], y[:, 1]),
    "matmul": (torch.matmul, stack, other),
    "empty": (torch.mm, x[:, :0], y[:0]),
    "tensordot": (lambda a, b: torch.tensordot(a, b, dims=([0, 1, 2], [0, 1, 2])), stack, stack + 1),
    "conv1d": (F.conv1d, line, big(6, 4, 3)),
    "conv2d": (lambda a, w: F.conv2d(a, w, stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2), image,
               big(6, 2, 3, 2)),
    "conv3d": (F.conv3d, volume, big(3, 2, 2, 2, 3)),
    "transposed": (lambda a, w: F.conv_transpose2d(a, w, stride=2, padding=1, output_padding=1, groups=2), image,
                   big(4, 3, 3, 2)),
}
for name, (f, *inputs) in cases.items():
    want = f(*inputs)
    got = f(*[t.to("tpu") for t in inputs])
    assert torch.equal(got.cpu(), want), name
print(len(cases), "equal")
"""


@pytest.mark.parametrize("emulated", ["", "tpu", "cuda,tpu"])
def test_products_of_64_bit_integers_wrap_as_on_cpu(emulated, tmp_path):
    settings = {"TORCHPORT_DEVICE": "tpu", "TORCHPORT_EMULATE": emulated, "TORCHPORT_DUMP": str(tmp_path)}
    assert python_ok(WIDE, **settings).strip() == "10 equal"
    programs = "".join(file.read_text(encoding="utf-8") for file in tmp_path.iterdir())
    for op in ("stablehlo.dot_general", "stablehlo.convolution"):
        assert (op in programs) == (not emulated), op


def test_unknown_platform_is_refused():
    done = python("import torch; torch.ones(2, device='tpu')", TORCHPORT_DEVICE="tpu", TORCHPORT_EMULATE="tpv")
    assert done.returncode != 0
    assert "TORCHPORT_EMULATE" in done.stderr
    assert "'tpv'" in done.stderr
