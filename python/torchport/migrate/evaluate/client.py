"""Open-loop load on an HTTP service by MLPerf LoadGen. A script of its own, run in its own process: it needs only the
standard library and mlperf_loadgen, and a crash in there costs one start, not the evaluation.

    python client.py CONFIG.json RESULT.json     one load
    python client.py --null-server               a server that answers at once; prints its port

Latencies are LoadGen's own, from the *scheduled* arrival: what a slow client or a full queue delays still counts.
"""

from __future__ import annotations

import array
import http.client
import json
import queue
import re
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

SAMPLE = re.compile(r'"name":"Sample".*?"ph":"b".*?"ts":([\d.]+).*?"sample_seq":(\d+).*?"complete_ns":(\d+)')


class Poster:
    """One kept-alive connection."""

    def __init__(self, url: str, timeout_s: float) -> None:
        parts = urlsplit(url)
        self.path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self.connection = kind(parts.hostname or "", parts.port, timeout=timeout_s)

    def post(self, body: bytes) -> bytes:
        """The answer's body; OSError when there is no answer, or none with status 200."""
        try:
            self.connection.request("POST", self.path, body, {"Content-Type": "application/json"})
            response = self.connection.getresponse()
            content = response.read()
        except (http.client.HTTPException, OSError) as error:
            self.connection.close()
            raise OSError(f"{type(error).__name__}: {error}") from error
        if response.status != 200:
            raise OSError(f"status {response.status}")
        return content


class System:
    """What LoadGen drives: a queue and workers, each with its own connection."""

    def __init__(self, url: str, bodies: list[bytes], workers: int, timeout_s: float) -> None:
        self.bodies = bodies
        self.queue: queue.SimpleQueue = queue.SimpleQueue()
        self.failed: set[int] = set()  # LoadGen's sequence numbers are only in its trace: failures go by sample id
        self.ids: list[int] = []
        self.threads = [threading.Thread(target=self._work, args=(Poster(url, timeout_s),)) for _ in range(workers)]
        for thread in self.threads:
            thread.start()

    def issue(self, samples: list[Any]) -> None:
        """LoadGen's callback; returns at once, so arrivals keep their schedule."""
        for sample in samples:
            self.ids.append(sample.id)
            self.queue.put((sample.id, sample.index))

    def flush(self) -> None:
        """LoadGen's callback; nothing is held back."""

    def stop(self) -> None:
        """Ends the workers."""
        for _ in self.threads:
            self.queue.put(None)
        for thread in self.threads:
            thread.join()

    def _work(self, poster: Poster) -> None:
        import mlperf_loadgen as loadgen

        empty = array.array("B", b" ")
        address, _ = empty.buffer_info()
        while (item := self.queue.get()) is not None:
            try:
                poster.post(self.bodies[item[1]])
            except OSError:
                self.failed.add(item[0])
            loadgen.QuerySamplesComplete([loadgen.QuerySampleResponse(item[0], address, 1)])


def run(config: dict[str, Any]) -> dict[str, Any]:
    """One load; latencies in milliseconds in order of arrival, without the failed ones."""
    import mlperf_loadgen as loadgen

    bodies = [json.dumps(body).encode() for body in config["bodies"]]
    system = System(config["url"], bodies, config["workers"], config["timeout_s"])
    settings = _settings(loadgen, config)
    sut = loadgen.ConstructSUT(system.issue, system.flush)
    qsl = loadgen.ConstructQSL(len(bodies), len(bodies), lambda _: None, lambda _: None)
    with tempfile.TemporaryDirectory() as folder:
        log = loadgen.LogSettings()
        output = loadgen.LogOutputSettings()
        output.outdir, output.copy_summary_to_stdout = folder, False
        log.log_output, log.enable_trace = output, True
        wall, cpu = time.perf_counter(), time.process_time()
        loadgen.StartTestWithLogSettings(sut, qsl, settings, log, "")
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        system.stop()
        loadgen.DestroyQSL(qsl)
        loadgen.DestroySUT(sut)
        trace = (Path(folder) / "mlperf_log_trace.json").read_text(errors="replace")
        summary = (Path(folder) / "mlperf_log_summary.txt").read_text(errors="replace")
    rows = sorted((int(seq), float(ts), int(done)) for ts, seq, done in SAMPLE.findall(trace))
    if len(rows) != len(system.ids):
        raise RuntimeError(f"[load client] must find {len(system.ids)} samples in LoadGen's trace, got {len(rows)}")
    order = system.ids  # issue order is sequence order
    scheduled = [ts * 1e-6 for _, ts, _ in rows]  # the trace counts in microseconds
    finished = [t + done * 1e-9 for t, (_, _, done) in zip(scheduled, rows, strict=True)]
    return {
        "latency_ms": [done / 1e6 for (_, _, done), key in zip(rows, order, strict=True) if key not in system.failed],
        "failed": len(system.failed),
        "queries": len(rows),
        "duration_s": max(finished) - min(scheduled),
        "client_cpu_share": cpu / wall,
        "summary": {
            k.strip(): v.strip() for k, _, v in (line.partition(":") for line in summary.splitlines()) if v.strip()
        },
    }


def _settings(loadgen: Any, config: dict[str, Any]) -> Any:
    settings = loadgen.TestSettings()
    settings.scenario = getattr(loadgen.TestScenario, config["scenario"])
    settings.mode = loadgen.TestMode.PerformanceOnly
    settings.min_duration_ms = 0  # the number of queries rules; what precision that gives is reported
    settings.min_query_count = settings.max_query_count = config["queries"]
    settings.qsl_rng_seed = settings.sample_index_rng_seed = settings.schedule_rng_seed = config["seed"]
    if config["scenario"] == "Server":
        settings.server_target_qps = config["rate_per_s"]
        settings.server_target_latency_ns = int(config["latency_ms"] * 1e6)
        settings.server_target_latency_percentile = config["percentile"] / 100
    if config["scenario"] == "Offline":
        settings.offline_expected_qps = config["queries"]
    return settings


class _Null(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or each answer waits 40 ms for the acknowledgement of its own header

    def do_POST(self) -> None:
        """Reads the body, answers `{}`."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        """Silent."""


def null_server() -> None:
    """Serves until killed, on loopback."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Null)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    if sys.argv[1:] == ["--null-server"]:
        null_server()
    else:
        result = run(json.loads(Path(sys.argv[1]).read_text()))
        Path(sys.argv[2]).write_text(json.dumps(result))
