"""Cases known not to agree with the CPU, with what was seen. They are strict: one that begins to pass fails the run, so
that its line is taken out. A cause is named only where it was looked up; "cause not found" means just that.
"""

_CAST = ("forward", "strided", "backward")


def _rows(name: str, dtypes: str, modes: tuple[str, ...], seen: str) -> dict[str, str]:
    return {f"{name}-{dtype}-{mode}": seen for dtype in dtypes.split() for mode in modes}


_GRID = "a few elements differ by up to 0.16 from the CPU in bfloat16; cause not found"
_TIES = "integer results differ from the CPU's; equal elements suspected, cause not found"

# by test id: op, dtype, mode
GAPS: dict[str, str] = {
    **_rows("grid_sampler_2d", "bfloat16", _CAST, _GRID),
    **_rows("grid_sampler_3d", "bfloat16", _CAST, _GRID),
    **_rows("nn.functional.grid_sample", "bfloat16", ("backward",), _GRID),
    **_rows("kthvalue", "int64", ("forward", "strided"), _TIES),
    **_rows("topk", "int64", ("forward", "strided"), _TIES),
    **_rows("native_dropout_backward", "int64", ("forward", "strided"), "gives int64 where the CPU gives float32"),
    **_rows(
        "nn.functional.fractional_max_pool3d",
        "float32 bfloat16",
        _CAST,
        "4 or 5 of 72 elements come from another region than the CPU's; cause not found",
    ),
    **_rows(
        "nn.functional.multi_head_attention_forward",
        "float32 bfloat16",
        _CAST,
        "a sample drops out at random (p=0.5, training): the device draws other numbers than the CPU",
    ),
    **_rows("nn.functional.multi_margin_loss", "float32", _CAST, "a 0-d input is refused, the CPU takes it"),
}
