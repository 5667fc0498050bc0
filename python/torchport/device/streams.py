"""Streams and events: torch.Stream and torch.Event of this device, under the names that torch.cuda gives them."""

from __future__ import annotations

from typing import Any, Self

import torch

from torchport import _C
from torchport.device._utils import NAME, Device, _get_device_index

__all__ = ["Event", "Stream", "StreamContext", "current_stream", "default_stream", "set_stream", "stream"]

_DEVICE_TYPE = torch._C._autograd.DeviceType.PrivateUse1.value


class Stream(torch.Stream):
    """A queue of work on one device."""

    def __new__(cls, device: Device = None, priority: int = 0, **kwargs: Any) -> Self:
        if "stream_id" in kwargs:
            return super().__new__(cls, priority=priority, **kwargs)
        return super().__new__(cls, torch.device(NAME, _get_device_index(device)), priority=priority)

    def record_event(self, event: torch.Event | None = None) -> torch.Event:
        """Record an event, a new one if none is given, and return it."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def __repr__(self) -> str:
        return f"<torch.{NAME}.Stream device={self.device} id={self.stream_id}>"


class _EventType(type(torch.Event)):
    """Makes isinstance(event, torch.<device>.Event) true: torch's own methods take no subclass of torch.Event."""

    def __instancecheck__(cls, obj: object) -> bool:
        return isinstance(obj, torch.Event) and (obj.device is None or obj.device.type == NAME)


class Event(torch.Event, metaclass=_EventType):
    """A mark in a stream, to wait for or to take the time of."""

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> torch.Event:
        if interprocess:
            raise RuntimeError(f"[torch.{NAME}.Event] must be of one process, got interprocess=True")
        return torch.Event(torch.device(NAME), enable_timing=enable_timing, blocking=blocking)


def _stream(index: int, stream_id: int) -> Stream:
    return Stream(stream_id=stream_id, device_index=index, device_type=_DEVICE_TYPE)


def current_stream(device: Device = None) -> Stream:
    """The stream that takes the work of a device now."""
    index = _get_device_index(device)
    return _stream(index, torch._C._accelerator_getStream(index).stream_id)


def default_stream(device: Device = None) -> Stream:
    """The stream a device has from the start."""
    return _stream(_get_device_index(device), 0)


def set_stream(stream: torch.Stream | None) -> None:
    """Make a stream the current one of its device, and that device the current one; None changes nothing."""
    if stream is not None:
        torch._C._accelerator_setStream(stream)


class StreamContext:
    """Context manager: another current stream for the block; None changes nothing."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self._device = _C.current_device()
            self._before = current_stream(self.stream.device)
            set_stream(self.stream)

    def __exit__(self, *error: object) -> None:
        if self.stream is not None:
            set_stream(self._before)
            _C.set_device(self._device)


def stream(stream: torch.Stream | None) -> StreamContext:
    """Context manager: see StreamContext."""
    return StreamContext(stream)
