"""Shows a knowledge base in a browser on this machine, with Datasette, and to nobody else."""

from __future__ import annotations

import ipaddress
import subprocess
import sys
import tempfile
from pathlib import Path

from torchport.migrate.kb.store import Store
from torchport.pages.page import needs


def loopback(host: str) -> str:
    """The address, if nobody but this machine can reach it. Names are not looked up: they may change after the check."""
    try:
        mine = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        mine = False  # a name
    if not mine:
        raise ValueError(
            f"[kb serve] host must be 127.0.0.1, ::1 or localhost, got {host!r}: the base is for this machine only"
        )
    return host


def serve(store: Store, host: str, port: int) -> int:
    """Serves a copy, read only, until interrupted; returns Datasette's exit code. port 0: any free one."""
    host = loopback(host)
    if not 0 <= port <= 65535:
        raise ValueError(f"[kb serve] port must be in [0, 65535], got {port}")
    needs("datasette", "kb")
    with tempfile.TemporaryDirectory(prefix="torchport-kb-") as folder:
        copy = Path(folder) / "kb.db"
        store.copy(copy)
        command = [sys.executable, "-m", "datasette", "serve", "--immutable", str(copy)]
        settings = ("allow_download", "off", "allow_facet", "on", "default_page_size", "50")
        for name, value in zip(settings[::2], settings[1::2], strict=True):
            command += ["--setting", name, value]
        return subprocess.run([*command, "--host", host, "--port", str(port)], check=False).returncode
