"""Stands in for `torchport.check.worker`: FAKE says how its compiler behaves."""

import json
import os
import signal
import sys
import time
from pathlib import Path

MEMORY = {"arguments": 4000, "outputs": 1000, "aliased": 1000, "temporaries": 2000, "code": 100, "peak": 6100}
COST = {"flops": 2e9, "bytes accessed": 1e6, "optimal_seconds": 1e-3}
OK = {"ok": True, "memory": MEMORY, "cost": COST, "seconds": 0.01}


def main() -> None:
    how = os.environ.get("FAKE", "compile")
    replies = os.fdopen(int(sys.argv[1]), "w")

    def reply(message: dict) -> None:
        replies.write(json.dumps(message) + "\n")
        replies.flush()

    if how == "no plugin":
        reply({"ok": False, "words": "[platform tpu] must have a plugin, got none. Try: pip install libtpu"})
        return
    reply({"ok": True, "plugin": "/fake/plugin.so"})
    for line in sys.stdin:
        request = json.loads(line)
        text = Path(request["text"]).read_text()
        if how == "abort":
            print("F0000 00:00 compiler.cc:41] Check failed: devices == 16 (4 vs. 16)", file=sys.stderr, flush=True)
            os.abort()
        if how == "hang":
            time.sleep(600)
        if how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "eat":
            hoard = bytearray(400 << 20)
            hoard[::4096] = b"x" * len(hoard[::4096])
            time.sleep(600)
        if how == "refuse" and "stablehlo.dot_general" in text:
            reply({"ok": False, "words": "UNIMPLEMENTED: dot of s64 is not implemented"})
            continue
        if how == "too large":
            reply({"ok": False, "words": "RESOURCE_EXHAUSTED: Ran out of memory on HBM (40.00G) exceeds (31.24G)"})
            continue
        if request.get("bundle"):
            Path(request["bundle"]).write_bytes(b"executable")
        reply(OK)


main()
