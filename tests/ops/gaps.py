"""What is known not to agree with the CPU yet, and why. A line leaves this table when its cause is mended; none may join to
get a run green: a new failure is a new failure.
"""

GAPS: dict[str, str] = {
    "_batch_norm_with_update": "a written argument beside new results has another shape than the first result",
    "_native_batch_norm_legit": "a written argument beside new results has another shape than the first result",
    "bincount": "its size depends on values: runs on the CPU",
    "grid_sampler_2d": "bfloat16 rounds in another order than the CPU's kernel",
    "grid_sampler_3d": "bfloat16 rounds in another order than the CPU's kernel",
    "nn.functional.grid_sample": "bfloat16 rounds in another order than the CPU's kernel",
    "kthvalue": "ties: the index of another equal element than the CPU's unstable selection",
    "topk": "ties: the index of another equal element than the CPU's unstable selection",
    "native_dropout_backward": "a bool scale is promoted as a number",
    "nn.functional.fractional_max_pool3d": "the pooling regions of the last dimension differ",
    "nn.functional.multi_head_attention_forward": "its samples drop out at random: the device draws other numbers",
    "nn.functional.multi_margin_loss": "a 0-d input is refused",
    "unique": "its size depends on values: runs on the CPU",
    "unique_consecutive": "its size depends on values: runs on the CPU",
}
