"""Cases known not to agree with the CPU, with what was seen. They are strict: one that begins to pass fails the run, so
that its line is taken out. A cause is named only where it was looked up; "cause not found" means just that.
"""

_CAST = ("forward", "strided", "backward")


def _rows(name: str, dtypes: str, modes: tuple[str, ...], seen: str) -> dict[str, str]:
    return {f"{name}-{dtype}-{mode}": seen for dtype in dtypes.split() for mode in modes}


_GRID = "a few elements differ by up to 0.16 from the CPU in bfloat16; cause not found"
_STEPS = "numbers as on the CPU, in row-major order, where the CPU's library leaves them in another"

# by test id: op, dtype, mode
GAPS: dict[str, str] = {
    **_rows("grid_sampler_2d", "bfloat16", _CAST, _GRID),
    **_rows("grid_sampler_3d", "bfloat16", _CAST, _GRID),
    **_rows("nn.functional.grid_sample", "bfloat16", ("backward",), _GRID),
    **_rows("native_dropout_backward", "int64", ("forward", "strided"), "gives int64 where the CPU gives float32"),
    **_rows(
        "nn.functional.fractional_max_pool3d",
        "float32 bfloat16",
        _CAST,
        "4 or 5 of 72 elements come from another region than the CPU's; cause not found",
    ),
    **{
        key: _STEPS
        for name, dtypes in {
            **dict.fromkeys(("argwhere", "fft.fft", "fft.ifft", "fft.irfft", "fft.rfft", "rot90"), "float32 int64"),
            **dict.fromkeys(("linalg.cholesky", "linalg.inv", "linalg.qr"), "float32"),
        }.items()
        for key in _rows(name, dtypes, ("forward", "strided"), _STEPS)
    },
    **_rows("nn.functional.multi_margin_loss", "float32", _CAST, "a 0-d input is refused, the CPU takes it"),
}
