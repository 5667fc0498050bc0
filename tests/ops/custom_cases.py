"""Lines for the ops that PyTorch's database lacks: name, dtypes, function, its samples' arguments."""

import torch
from torch.nn import functional as F

from ops import samples as sample
from ops.case import BOOL, FLOAT, FLOAT_INT, FLOATS, INT8, custom

aten = torch.ops.aten
IMAGE = (2, 3, 5, 4)
CHANNELS = ((3,), (3,))
# test_optim.py holds the device to what dense tensors give instead.
OPTIMIZER = {"differentiable": False, "without": ("strided",), "why": "the CPU's kernels take any layout as contiguous"}

CUSTOM = [
    custom("_adaptive_avg_pool2d", FLOATS, aten._adaptive_avg_pool2d, sample.tensors((2, 3, 7, 5), more=([3, 2],))),
    custom(
        "_adaptive_avg_pool3d", FLOATS, aten._adaptive_avg_pool3d, sample.tensors((2, 3, 4, 7, 5), more=([2, 3, 2],))
    ),
    custom("_cdist_forward", FLOAT, aten._cdist_forward, sample.tensors((4, 3), (5, 3), more=(2.0, None))),
    custom("_pdist_forward", FLOAT, aten._pdist_forward, sample.tensors((5, 3), more=(2.0,))),
    custom("channel_shuffle", FLOAT_INT, torch.channel_shuffle, sample.tensors((2, 6, 3, 3), more=(3,))),
    custom("col2im", FLOATS, F.fold, sample.tensors((2, 12, 12), more=((4, 5), (2, 2)))),
    custom(
        "convolution.grouped", FLOATS, F.conv2d, sample.tensors((2, 4, 7, 6), (6, 2, 3, 3), (6,), more=(2, 1, 1, 2))
    ),
    custom("convolution.dilated", FLOATS, F.conv2d, sample.tensors((2, 3, 9, 8), (4, 3, 3, 2), (4,), more=(1, 2, 2))),
    custom("convolution.depthwise", FLOATS, F.conv1d, sample.tensors((2, 4, 9), (4, 1, 3), (4,), more=(1, 0, 1, 4))),
    custom("conv_tbc", FLOAT, torch.conv_tbc, sample.tensors((7, 2, 3), (3, 3, 4), (4,), more=(1,))),
    custom("gru", FLOAT, torch.gru, sample.recurrent(3, 1)),
    custom("lstm", FLOAT, torch.lstm, sample.recurrent(4, 2)),
    custom("rnn_tanh", FLOAT, torch.rnn_tanh, sample.recurrent(1, 1)),
    custom("native_dropout.eval", FLOATS, torch.native_dropout, sample.tensors((3, 4), more=(0.5, False))),
    custom("reflection_pad3d", FLOAT, aten.reflection_pad3d, sample.tensors((2, 3, 4, 5), more=([1, 2, 0, 1, 1, 1],))),
    custom(
        "replication_pad3d", FLOAT, aten.replication_pad3d, sample.tensors((2, 3, 4, 5), more=([1, 2, 0, 1, 1, 1],))
    ),
    custom("_fused_adam_", FLOATS, sample.fused_adam(torch._fused_adam_), sample.optimizer(2), **OPTIMIZER),
    custom("_fused_adamw_", FLOATS, sample.fused_adam(torch._fused_adamw_), sample.optimizer(2), **OPTIMIZER),
    custom("_fused_sgd_", FLOATS, sample.fused_sgd, sample.optimizer(1), **OPTIMIZER),
    custom("_add_relu", FLOAT, aten._add_relu, sample.tensors((3, 4), (3, 4)), differentiable=False),
    custom(
        "_addmm_activation",
        FLOATS,
        aten._addmm_activation,
        sample.tensors((4,), (2, 3), (3, 4)),
        differentiable=False,
    ),
    custom("_int_mm", INT8, torch._int_mm, sample.tensors((17, 8), (8, 16)), differentiable=False),
    custom("_is_all_true", BOOL, aten._is_all_true, sample.tensors((3, 4))),
    custom("_is_any_true", BOOL, aten._is_any_true, sample.tensors((3, 4))),
    custom("_aminmax", FLOAT_INT, aten._aminmax, sample.tensors((3, 4)), differentiable=False),
    custom("_conj_physical", FLOAT, aten._conj_physical, sample.tensors((3, 4))),
    custom(
        "_stack", FLOAT_INT, lambda a, b: aten._stack([a, b], 1), sample.tensors((3, 4), (3, 4)), differentiable=False
    ),
    custom("_unsafe_index", FLOATS, sample.unsafe_index, sample.tensors((5, 4))),
    custom("_unsafe_index_put", FLOATS, sample.unsafe_index_put, sample.tensors((5, 4), (2, 4))),
    custom("_masked_softmax", FLOAT, sample.masked_softmax, sample.tensors((2, 3, 4, 4))),
    custom("_weight_norm_interface", FLOATS, torch._weight_norm, sample.tensors((4, 3), (4, 1))),
    custom(
        "_native_batch_norm_legit_no_training",
        FLOATS,
        sample.batch_norm(aten._native_batch_norm_legit_no_training, 0.1, 1e-5),
        sample.tensors(IMAGE, *CHANNELS),
    ),
    custom(
        "_native_batch_norm_legit_functional",
        FLOAT,
        sample.batch_norm(aten._native_batch_norm_legit_functional, True, 0.1, 1e-5),
        sample.tensors(IMAGE, *CHANNELS),
        differentiable=False,
    ),
    custom(
        "_batch_norm_no_update",
        FLOATS,
        sample.batch_norm(aten._batch_norm_no_update, 0.1, 1e-5),
        sample.tensors(IMAGE, *CHANNELS),
        differentiable=False,
    ),
    custom(
        "_batch_norm_with_update_functional",
        FLOAT,
        sample.batch_norm(aten._batch_norm_with_update_functional, 0.1, 1e-5),
        sample.tensors(IMAGE, *CHANNELS),
        differentiable=False,
    ),
    custom("batch_norm_update_stats", FLOAT, sample.update_stats, sample.tensors(IMAGE), differentiable=False),
    custom(
        "_upsample_bicubic2d_aa", FLOAT, sample.interpolate("bicubic", (3, 7), antialias=True), sample.tensors(IMAGE)
    ),
    custom(
        "_upsample_lanczos2d_aa", FLOAT, lambda x: aten._upsample_lanczos2d_aa(x, [3, 7], False), sample.tensors(IMAGE)
    ),
    custom("_upsample_nearest_exact1d", FLOATS, sample.interpolate("nearest-exact", 7), sample.tensors((2, 3, 5))),
    custom("_upsample_nearest_exact2d", FLOATS, sample.interpolate("nearest-exact", (7, 3)), sample.tensors(IMAGE)),
    custom(
        "_upsample_nearest_exact3d",
        FLOATS,
        sample.interpolate("nearest-exact", (7, 3, 2)),
        sample.tensors((1, 2, 5, 4, 3)),
    ),
    custom("upsample_nearest2d", FLOATS, sample.interpolate("nearest", (7, 3)), sample.tensors(IMAGE)),
    custom("upsample_nearest3d", FLOATS, sample.interpolate("nearest", (7, 3, 2)), sample.tensors((1, 2, 5, 4, 3))),
    custom("reflection_pad2d", FLOATS, aten.reflection_pad2d, sample.tensors(IMAGE, more=([1, 2, 3, 0],))),
    custom("replication_pad2d", FLOATS, aten.replication_pad2d, sample.tensors(IMAGE, more=([1, 2, 3, 0],))),
    custom(
        "affine_grid_generator",
        FLOAT,
        aten.affine_grid_generator,
        sample.tensors((2, 2, 3), more=([2, 3, 4, 5], False)),
    ),
    custom("nll_loss2d", FLOATS, sample.nll_loss2d, sample.tensors(IMAGE)),
    custom("embedding_renorm_", FLOAT, sample.embedding_renorm, sample.tensors((5, 4)), differentiable=False),
    custom("glu_jvp", FLOAT, sample.glu_jvp, sample.tensors((3, 6), (3, 6)), differentiable=False),
    custom("glu_backward_jvp", FLOAT, sample.glu_backward_jvp, sample.tensors((3, 6), (3, 6)), differentiable=False),
    custom("_fused_adagrad_", FLOAT, sample.fused_adagrad, sample.optimizer(1), **OPTIMIZER),
]
