"""A tiny workload without torch: a text classifier that is right where it knows the word, as a service or as training.

workload.py serve PORT EVENTS [--delay S] [--wrong ID ...] [--device NAME] [--emulated]
workload.py train EVENTS [--delay S] [--device NAME] [--crash] [--nan]
"""

import argparse
import json
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WORDS = {"good": "positive", "fine": "positive", "bad": "negative", "poor": "negative"}


def classify(text: str, wrong: bool) -> dict:
    label = next((label for word, label in WORDS.items() if word in text), "positive")
    if wrong:
        label = {"positive": "negative", "negative": "positive"}[label]
    sign = 1.0 if label == "positive" else -1.0
    return {"label": label, "logits": [-sign, sign + len(text) * 0.001]}


def identity(options: argparse.Namespace) -> dict:
    return {
        "event": "identity",
        "device": options.device,
        "emulated": options.emulated,
        "framework": "none 1.0",
        "plugin": "none",
        "precision": "float64",
        "software": {"torch": "2.13.0"},
    }


def serve(options: argparse.Namespace) -> None:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            self.answer({"ok": True})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            time.sleep(options.delay)
            self.answer(classify(body["text"], body["text"] in options.wrong))

        def answer(self, value: dict) -> None:
            content = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
    with open(options.events, "a") as file:
        print(json.dumps(identity(options)), file=file)
    server.serve_forever()


def train(options: argparse.Namespace) -> None:
    with open(options.events, "a", buffering=1) as file:
        print(json.dumps(identity(options)), file=file)
        print(json.dumps({"event": "ready", "t": time.monotonic()}), file=file)
        loss = float("nan") if options.nan else 1.0
        for step in range(30):
            if options.crash and step == 3:
                raise SystemExit(3)
            time.sleep(options.delay)
            print(
                json.dumps({"event": "step", "t": time.monotonic(), "items": 8, "loss": loss / (step + 1)}), file=file
            )
        for n in range(40):
            print(json.dumps({"event": "sample", "id": n, "score": 1.0, "answer": n % 2}), file=file)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("serve")
    one.add_argument("port", type=int)
    one.add_argument("events")
    one.add_argument("--wrong", nargs="*", default=[])
    one.set_defaults(do=serve)
    two = commands.add_parser("train")
    two.add_argument("events")
    two.add_argument("--crash", action="store_true")
    two.add_argument("--nan", action="store_true")
    two.set_defaults(do=train)
    for p in (one, two):
        p.add_argument("--delay", type=float, default=0.001)
        p.add_argument("--device", default="toy")
        p.add_argument("--emulated", action="store_true")
    given = parser.parse_args()
    given.do(given)
