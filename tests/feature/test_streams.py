"""Streams and events, through torch and torch.<device>."""

import time

import pytest
import torch

pytestmark = pytest.mark.port


def test_streams(dev, port):
    default = port.default_stream()
    assert port.current_stream() == default == torch.accelerator.current_stream()
    s = port.Stream()
    assert s != default
    assert s.device == torch.device(dev.type, 0)
    with port.stream(s):
        assert port.current_stream() == s
        x = torch.ones(100, device=dev) * 2
    assert port.current_stream() == default
    s.synchronize()
    assert s.query()
    default.wait_stream(s)
    assert (x + 1).sum().item() == 300
    with torch.Stream(device=dev) as t:
        assert torch.accelerator.current_stream() == t
    torch.accelerator.set_stream(s)
    assert port.current_stream() == s
    port.set_stream(default)
    with port.stream(None):
        assert port.current_stream() == default


def test_streams_of_another_device(dev, port):
    s = port.Stream(device=f"{dev.type}:1")
    assert s.device.index == 1
    with port.stream(s):
        assert port.current_device() == 1
        assert torch.ones(1, device=dev.type).device.index == 1
    assert port.current_device() == 0


def test_record_stream_and_pending_work(dev, port):
    s = port.Stream()
    x = torch.ones(256, 256, device=dev)
    with port.stream(s):
        y = x @ x
        x.record_stream(s)
    del x
    s.synchronize()
    assert y[0, 0].item() == 256


def test_events(dev, port):
    start, end = port.Event(enable_timing=True), port.Event(enable_timing=True)
    start.record()
    x = torch.ones(400, 400, device=dev)
    for _ in range(20):
        x = (x @ x) * 1e-3
    end.record()
    end.synchronize()
    assert end.query()
    assert start.query()
    elapsed = start.elapsed_time(end)
    assert 0 < elapsed < 60_000
    assert torch.isfinite(x).all()


def test_elapsed_time_is_of_completion(dev, port):
    start, end = torch.Event(dev.type, enable_timing=True), torch.Event(dev.type, enable_timing=True)
    x = torch.ones(600, 600, device=dev)
    (x @ x).sum().item()  # compiled before the clock starts
    began = time.perf_counter()
    start.record()
    for _ in range(10):
        x = (x @ x) * 1e-3
    end.record()
    end.synchronize()
    wall = (time.perf_counter() - began) * 1000
    assert 0 < start.elapsed_time(end) <= wall * 1.05 + 1


def test_event_waits(dev, port):
    event = port.Event()
    s = port.Stream()
    with port.stream(s):
        x = torch.ones(1000, device=dev) * 3
        event.record(s)
    event.wait()
    port.current_stream().wait_event(event)
    assert x.sum().item() == 3000
    assert s.record_event().query() in (True, False)
    event.synchronize()
    assert event.query()


def test_event_errors(dev, port):
    plain, timed = port.Event(), port.Event(enable_timing=True)
    plain.record()
    timed.record()
    torch.accelerator.synchronize()
    with pytest.raises((RuntimeError, ValueError)):
        plain.elapsed_time(timed)
    with pytest.raises((RuntimeError, ValueError)):
        port.Event(enable_timing=True).elapsed_time(timed)
    assert (torch.ones(1, device=dev) + 1).item() == 2


def test_synchronize(dev, port):
    x = torch.ones(300, 300, device=dev)
    y = x @ x
    port.synchronize()
    torch.accelerator.synchronize(0)
    port.synchronize(f"{dev.type}:1")
    assert y[0, 0].item() == 300
