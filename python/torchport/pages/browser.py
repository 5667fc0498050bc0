"""A page seen through headless Chromium: its screenshot, its document after the scripts ran, and what they complained of."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# --no-sandbox: root in a container has no user namespaces; the page is our own file. The rest keeps it
# from calling home.
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--enable-logging=stderr",
    "--virtual-time-budget=10000",
)
_CONSOLE = re.compile(r":CONSOLE[:(]\d+\)?\] (.*)")


@dataclass(frozen=True)
class Look:
    """document: HTML after the scripts ran. console: messages of the page's scripts and of the browser about the page."""

    document: str
    console: tuple[str, ...]


def find_chromium() -> str:
    """Path of a Chromium, or an error that says how to get one."""
    for name in _NAMES:
        if path := shutil.which(name):
            return path
    raise FileNotFoundError(
        f"[browser] must find one of {', '.join(_NAMES)} on PATH, got none. Try: apt-get install chromium"
    )


def look(page: Path, screenshot: Path, width: int = 1200, height: int = 1600, timeout: float = 120) -> Look:
    """Opens a page's file and writes its screenshot (PNG, width x height pixels). No network name resolves.

    Raises FileNotFoundError without Chromium, RuntimeError with its words when it fails, TimeoutExpired after
    `timeout` seconds.
    """
    binary = find_chromium()
    with tempfile.TemporaryDirectory(prefix="torchport-browser-") as profile:
        shared = [binary, *_FLAGS, f"--window-size={width},{height}"]
        address = page.resolve().as_uri()
        done = [
            subprocess.run(
                [*shared, f"--user-data-dir={profile}/{number}", what, address],
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
            for number, what in enumerate((f"--screenshot={screenshot.resolve()}", "--dump-dom"))
        ]
    if any(run.returncode for run in done) or not screenshot.is_file():
        words = done[0].stderr[-2000:] + done[1].stderr[-2000:]
        raise RuntimeError(f"[browser] must render {page}, got exit {[run.returncode for run in done]}: {words}")
    return Look(done[1].stdout, tuple(_CONSOLE.findall(done[1].stderr)))
