"""A process that speaks llama-server's router mode: `python stub_router.py --models-preset FILE --port PORT ...`.

Its models are stub engines, each with its section's name; what it is asked for them it forwards. It needs nothing
but Python.
"""

from __future__ import annotations

import configparser
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

STUB = str(Path(__file__).with_name("stub_engine.py"))


class Models:
    """Sections, and the children that run."""

    def __init__(self, preset: str) -> None:
        self.preset, self.children, self.ports, self.lock = preset, {}, {}, threading.Lock()
        self.read()

    def read(self) -> None:
        found = configparser.ConfigParser(default_section="*", delimiters=("=",), interpolation=None)
        found.read_string("[?]\n" + Path(self.preset).read_text())
        self.sections = [name for name in found.sections() if name != "?"]

    def load(self, name: str) -> None:
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.ports[name] = one.getsockname()[1]
        argv = [sys.executable, "-S", STUB, "--port", str(self.ports[name]), "--alias", name]
        self.children[name] = subprocess.Popen(argv, stdin=subprocess.PIPE)

    def rows(self) -> list[dict[str, object]]:
        return [{"id": name, "status": self.status(name)} for name in self.sections]

    def status(self, name: str) -> dict[str, object]:
        child = self.children.get(name)
        if child is None:
            return {"value": "unloaded"}
        if child.poll() is not None:
            return {"value": "unloaded", "failed": child.returncode != 0, "exit_code": child.returncode}
        try:
            ask(self.ports[name], "GET", "/health", b"", {}).read()
        except OSError:
            return {"value": "loading"}
        return {"value": "loaded"}


def ask(port: int, method: str, path: str, body: bytes, headers: dict[str, str]) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, path, body, headers)
    return connection.getresponse()


class Handler(BaseHTTPRequestHandler):
    models: Models

    def do_GET(self) -> None:
        if "reload" in self.path:
            self.models.read()
        found = {"data": self.models.rows()} if self.path.startswith("/models") else {"build_info": "b11434-stub"}
        self.say(200, found)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        section = str(json.loads(body)["model"])
        if self.headers.get("Authorization") != f"Bearer {os.environ['LLAMA_API_KEY']}":
            return self.say(401, {"error": {"message": "bad key"}})
        if section not in self.models.sections:
            return self.say(404, {"error": {"message": "model is not found"}})
        if self.path == "/models/load":
            with self.models.lock:
                self.models.load(section)
            return self.say(200, {"success": True})
        if self.path == "/models/unload":
            self.models.children[section].terminate()
            return self.say(200, {"success": True})
        try:
            headers = {name: self.headers[name] for name in ("Content-Type", "Authorization")}
            answer = ask(self.models.ports[section], "POST", self.path, body, headers)
            return self.say(answer.status, answer.read(), answer.headers["Content-Type"])
        except (OSError, KeyError, http.client.HTTPException) as error:
            return self.say(500, {"error": {"message": f"proxy error: {error}"}})

    def say(self, status: int, told: object, kind: str = "application/json") -> None:
        data = told if isinstance(told, bytes) else json.dumps(told).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


def main() -> None:
    told = dict(zip(sys.argv[1:], sys.argv[2:], strict=False))
    Handler.models = Models(told["--models-preset"])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    server = ThreadingHTTPServer(("127.0.0.1", int(told["--port"])), Handler)
    server.daemon_threads = True
    try:
        server.serve_forever()
    finally:
        for child in Handler.models.children.values():
            child.kill()


if __name__ == "__main__":
    main()
