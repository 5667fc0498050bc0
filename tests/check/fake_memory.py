"""A stand-in for the worker of a target: answers with the figures that it gets in FAKE_MEMORY (JSON), compiles nothing."""

import json
import os
import sys

with os.fdopen(int(sys.argv[1]), "w") as replies:

    def reply(message: dict) -> None:
        replies.write(json.dumps(message) + "\n")
        replies.flush()

    reply({"ok": True, "kind": "fake", "devices": 1, "plugin": "fake"})
    for _ in sys.stdin:
        memory = json.loads(os.environ["FAKE_MEMORY"])
        if memory is None:
            reply({"ok": False, "words": "RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm"})
        else:
            reply({"ok": True, "memory": memory, "cost": {}, "seconds": 0.1})
