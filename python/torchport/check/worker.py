"""The process that holds a target's compiler. It may abort, hang or eat memory: its parent (`compiler`) watches it.

Started as `python -m torchport.check.worker REPLY_FD TARGET`. Reads one JSON request a line from stdin, writes one JSON
reply a line to the file descriptor REPLY_FD, because compilers write to stdout and stderr as they like.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any


def _open(target_name: str) -> tuple[Any, dict[str, Any]]:
    """The topology of the target, and the first reply."""
    import torchport
    from torchport.check.targets import target

    torchport.activate()
    from torchport import _C

    wanted = target(target_name)
    topology = _C.Topology(wanted.chip.platform, wanted.topology_name, wanted.options)
    return topology, {"ok": True, "kind": topology.kind, "devices": topology.num_devices, "plugin": topology.plugin}


def _compile(topology: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Compiles the text that the request names; what the compiler made of it."""
    from torchport.check.hlo import summary

    started = time.perf_counter()
    program = topology.compile(Path(request["text"]).read_text(encoding="utf-8"), request["partitions"])
    seconds = time.perf_counter() - started
    if request.get("bundle"):
        _write(request["bundle"], program.serialize())
    try:
        cost = program.cost()
    except RuntimeError:  # the plugin has no cost analysis: its program is counted instead
        cost = {}
    reply: dict[str, Any] = {"ok": True, "memory": program.memory(), "cost": cost, "seconds": seconds}
    if request.get("hlo"):
        reply["hlo"] = summary(program.optimized_hlo())
    return reply


def _write(path: str, data: bytes) -> None:
    part = f"{path}.{os.getpid()}.part"
    Path(part).write_bytes(data)
    os.replace(part, path)


def main(reply_fd: int, target_name: str) -> int:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with os.fdopen(reply_fd, "w", encoding="utf-8") as replies:

        def reply(message: dict[str, Any]) -> None:
            replies.write(json.dumps(message) + "\n")
            replies.flush()

        try:
            topology, hello = _open(target_name)
        except (RuntimeError, ValueError) as error:  # no plugin, or one that does not start
            reply({"ok": False, "words": str(error)})
            return 1
        reply(hello)
        for line in sys.stdin:
            try:
                reply(_compile(topology, json.loads(line)))
            except (RuntimeError, ValueError) as error:  # the compiler's refusal
                reply({"ok": False, "words": str(error)})
    return 0


if __name__ == "__main__":
    status = main(int(sys.argv[1]), sys.argv[2])
    sys.stdout.flush()
    os._exit(status)  # a plugin's threads may not survive an orderly end
