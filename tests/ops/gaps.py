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
    **_rows(
        "nn.functional.fractional_max_pool3d",
        "float32 bfloat16",
        _CAST,
        "draws its windows at random: the device draws other numbers than the CPU",
    ),
    **{
        key: _STEPS
        for name, dtypes in {
            **dict.fromkeys(("argwhere", "fft.fft", "fft.ifft", "fft.irfft", "fft.rfft", "rot90"), "float32 int64"),
            **dict.fromkeys(("linalg.cholesky", "linalg.inv", "linalg.qr"), "float32"),
        }.items()
        for key in _rows(name, dtypes, ("forward", "strided"), _STEPS)
    },
}
