"""Raises the messages of the glossary that a torch without CUDA says by itself, and prints them as JSON: id -> text.

Run in a process without a device backend: `TORCH_DEVICE_BACKEND_AUTOLOAD=0 python tests/kb/provoked.py`.
"""

import io
import json
import warnings
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import cpp_extension

zeros = torch.zeros


def twice() -> None:
    y = (torch.ones(2, requires_grad=True) ** 2).sum()
    y.backward()
    y.backward()


def load_object() -> None:
    file = io.BytesIO()
    torch.save(io.BytesIO(), file)
    file.seek(0)
    torch.load(file)


def branch() -> None:
    torch.compile(lambda x: x + 1 if x.sum() > 0 else x, fullgraph=True, backend="eager")(zeros(3))


def deterministic() -> None:
    torch.use_deterministic_algorithms(True)
    try:
        zeros(3).put_(torch.tensor([0]), torch.ones(1))
    finally:
        torch.use_deterministic_algorithms(False)


def attention() -> None:
    with sdpa_kernel([SDPBackend.CUDNN_ATTENTION]):
        torch.nn.functional.scaled_dot_product_attention(*[zeros(1, 1, 2, 8)] * 3)


def parallel_keys() -> None:
    layer = torch.nn.Linear(2, 2)
    torch.nn.Linear(2, 2).load_state_dict(torch.nn.DataParallel(layer).state_dict())


CALLS: dict[str, Callable[[], object]] = {
    "torch-no-cuda": lambda: zeros(1).to("cuda"),
    "torch-no-aten-cuda": lambda: torch.Generator("cuda"),
    "torch-cuda-tensor-type": lambda: torch.set_default_tensor_type(torch.cuda.FloatTensor),
    "torch-load-cuda-checkpoint": lambda: torch.serialization.default_restore_location(
        zeros(1).untyped_storage(), "cuda:0"
    ),
    "torch-weights-only": load_object,
    "torch-mixed-devices": lambda: zeros(2, 2) + zeros(2, 2, device="meta"),
    "torch-unknown-device-string": lambda: torch.device("foo"),
    "torch-no-accelerator": lambda: zeros(1).pin_memory(),
    "torch-cuda-private-function": lambda: torch.cuda.set_device(0),
    "torch-dummy-class": lambda: torch.cuda.CUDAGraph(),
    "torch-nvtx-missing": lambda: torch.cuda.nvtx.range_push("a"),
    "torch-no-nccl": lambda: dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1),
    "torch-no-process-group": dist.get_rank,
    "torch-matmul-shapes": lambda: torch.mm(zeros(2, 3), zeros(4, 5)),
    "torch-matmul-dtypes": lambda: torch.nn.Linear(3, 4)(zeros(2, 3).half()),
    "torch-view-strides": lambda: zeros(2, 3).t().view(6),
    "torch-inplace-autograd": lambda: torch.ones(2, requires_grad=True).exp().add_(1).sum().backward(),
    "torch-leaf-inplace": lambda: torch.ones(2, requires_grad=True).add_(1),
    "torch-no-grad-fn": lambda: zeros(1).sum().backward(),
    "torch-backward-twice": twice,
    "torch-numpy-on-device": lambda: zeros(1, device="meta").numpy(),
    "torch-numpy-requires-grad": lambda: torch.ones(2, requires_grad=True).numpy(),
    "torch-bfloat16-numpy": lambda: zeros(1).bfloat16().numpy(),
    "torch-dtype-not-implemented": lambda: torch.linalg.svd(zeros(2, 2).half()),
    "torch-op-no-kernel": lambda: zeros(2).to_sparse().cumsum(0),
    "torch-meta-no-data": lambda: zeros(2, device="meta").to("cpu"),
    "torch-custom-op-missing": lambda: torch.ops.flash_attn.fwd,
    "torch-cuda-home": lambda: cpp_extension._join_cuda_home("x"),
    "torch-compile-unknown-backend": lambda: torch.compile(lambda x: x, backend="nope")(zeros(1)),
    "torch-compile-data-branch": branch,
    "torch-not-deterministic": deterministic,
    "torch-index-out-of-range": lambda: torch.nn.Embedding(2, 2)(torch.tensor([5])),
    "torch-state-dict-keys": parallel_keys,
    "torch-autocast-disabled": lambda: torch.autocast("cuda").__enter__(),
    "torch-pin-memory-unused": lambda: list(torch.utils.data.DataLoader([1.0], pin_memory=True)),
    "torch-sdpa-no-backend": attention,
}


def text(call: Callable[[], object]) -> str:
    """What the call raises, or the warnings it gives."""
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        try:
            call()
        except Exception as err:  # noqa: BLE001 (whatever it is, its text is what is wanted)
            return f"{type(err).__name__}: {err}"
    return "\n".join(str(one.message) for one in given)


if __name__ == "__main__":
    print(json.dumps({name: text(call) for name, call in CALLS.items()}))
