"""Published measurements beside our estimates: the table is complete, the page is up to date, every large ratio explained."""

from pathlib import Path

import pytest
from pydantic import ValidationError

pytestmark = pytest.mark.port
pytest.importorskip("torchport")

from torchport.check import estimates
from torchport.check.abstract import Workload
from torchport.check.count import count
from torchport.check.targets import target

ROOT = Path(__file__).resolve().parents[2]
ROW = {
    "model": "llama3_8b", "software": "x", "target": "tpu:v6e:2x4", "mode": "train", "peak": "bf16", "seq": 8192,
    "batch_per_device": 3, "parallel": {"fsdp": 8}, "step": 3.443, "source": "tpu_recipes_8b_small",
}  # fmt: skip


def test_the_page_is_what_the_table_gives():
    assert (ROOT / "docs" / "estimates.md").read_text() == estimates.page(), "run make docs"


def test_tpus_and_gpus_are_there():
    platforms = [c.measurement.target.partition(":")[0] for c in estimates.compared()]
    assert platforms.count("tpu") >= 3
    assert platforms.count("cuda") >= 3


def test_estimates_are_lower_bounds():
    """A step that is faster than what a perfect machine needs would show a wrong count or a wrong chip."""
    for c in estimates.compared():
        assert c.ratio > 1, c.measurement
        assert 0 < c.published_mfu < 1, c.measurement


def test_large_ratios_are_explained():
    for c in estimates.compared():
        assert (c.ratio > estimates.LARGE) == bool(c.note)


def test_a_ratio_by_hand():
    # Llama 3 8 B, 3 sequences of 8,192 tokens a chip, at 918 TFLOP/s: 3 passes of 2 operations for each of 7.505e9
    # weights in matrices, and of 4 * 32 layers * 4096 for each pair of tokens
    tokens = 3 * 8192
    flops = 3 * tokens * (2 * 7.505e9 + 4 * 32 * 4096 * 8192)
    found = estimates.compare(estimates.Measurement(**ROW))
    assert found.estimate.limit == "compute"
    assert found.ratio == pytest.approx(3.443 / (flops / 918e12), rel=0.01)


def test_decoding_is_limited_by_memory():
    config = estimates.published().model["llama3_8b"]
    counted = count(Workload(config, "decode", 1, 128), {})
    found = estimates.bounds(counted, target("tpu:v5p:1x1x1"), "bf16", 0.0)
    assert found.limit == "memory"
    assert found.seconds == pytest.approx(2 * 8.03e9 / 2.765e12, rel=0.01)


def test_the_band_spans_the_ratios():
    ratios = sorted(c.ratio for c in estimates.compared())
    band = estimates.band()
    assert (band.low, band.high, band.count) == (ratios[0], ratios[-1], len(ratios))
    assert f"{band.low:.1f} to {band.high:.1f} times" in band.text()
    assert estimates.band("prefill") == estimates.band("train")


@pytest.mark.parametrize("change", [{"step": None}, {"throughput": 1.0}, {"parallel": None}, {"seq": 0}, {"extra": 1}])
def test_measurements_that_are_refused(change):
    with pytest.raises(ValidationError):
        estimates.Measurement(**(ROW | change))
