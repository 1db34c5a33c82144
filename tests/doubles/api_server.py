"""A stand-in for the Kubernetes API server: HTTPS with an authority of its own, and a token to ask for."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import trustme

Answer = Callable[[BaseHTTPRequestHandler, threading.Event], None]
"""Answers a request; the event says that the server is to stop."""

Document = dict[str, object]


def pod_path(name: str, namespace: str = "ns") -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def pod(
    name: str,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    owner: tuple[str, str, str, str] | None = None,
    started: str = "2026-03-01T10:00:00Z",
    phase: str = "Running",
    uid: str = "",
    containers: Mapping[str, Document] | None = None,
    addresses: Sequence[str] = (),
    host_network: bool = False,
) -> Document:
    """A pod as the API server describes it; `owner` is (apiVersion, kind, name, uid).

    `containers` has the states of its containers, by name: see `WAITING`, `running` and `crashed`.
    """
    metadata: Document = {
        "name": name,
        "uid": uid or f"uid-of-{name}",
        "creationTimestamp": "2026-03-01T08:00:00Z",
        "labels": dict(labels or {}),
        "annotations": dict(annotations or {}),
    }
    if owner is not None:
        keys = ("apiVersion", "kind", "name", "uid")
        reference = {**dict(zip(keys, owner, strict=True)), "controller": True}
        metadata["ownerReferences"] = [{"kind": "Other", "name": "not-in-control"}, reference]
    status: Document = {"phase": phase, "startTime": started}
    if addresses:
        status |= {"podIP": addresses[0], "podIPs": [{"ip": each} for each in addresses]}
    spec: Document = {"hostNetwork": True} if host_network else {}
    if containers is not None:
        status["containerStatuses"] = [
            {"name": name, "image": "i", "ready": "running" in states, **states}
            for name, states in containers.items()
        ]
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec, "status": status}


# A container's state, as in https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#PodStatus
# and https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#container-states.
WAITING: Document = {
    "state": {"waiting": {"reason": "ContainerCreating"}},
    "lastState": {},
    "restartCount": 0,
}


def running(since: str) -> Document:
    """The state of a container that runs."""
    return {"state": {"running": {"startedAt": since}}, "lastState": {}, "restartCount": 0}


def finished(started: str, finished: str) -> Document:
    """The state of a container that ended for good."""
    ended = {"exitCode": 0, "reason": "Completed", "startedAt": started, "finishedAt": finished}
    return {"state": {"terminated": ended}, "lastState": {}, "restartCount": 0}


def crashed(started: str, finished: str) -> Document:
    """The state of a container that ended and waits to be started again."""
    ended = {"exitCode": 1, "reason": "Error", "startedAt": started, "finishedAt": finished}
    return {
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": ended},
        "restartCount": 1,
    }


def review(pod: str, namespace: str = "ns", audience: str = "ofu-exporter") -> Document:
    """The status of a TokenReview about the token that a projected volume gave a pod.

    https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-review-v1/ and
    https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/#bound-service-account-tokens.
    """
    user: Document = {
        "username": f"system:serviceaccount:{namespace}:default",
        "uid": "8a2c5bd8-5a0c-4b8e-9d0c-0f6c4f5e1c11",
        "groups": ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"],
        "extra": {
            "authentication.kubernetes.io/pod-name": [pod],
            "authentication.kubernetes.io/pod-uid": [f"uid-of-{pod}"],
        },
    }
    return {"authenticated": True, "user": user, "audiences": [audience]}


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # so that closing waits for them

    def __init__(self, handler: type[BaseHTTPRequestHandler], context: ssl.SSLContext) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.connections: list[socket.socket] = []

    def get_request(self) -> tuple[socket.socket, object]:
        connection, address = super().get_request()
        self.connections.append(connection)
        return connection, address

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hung up is no news here."""


class ApiServer:
    """Serves `objects` by path, and 404 for the rest; what goes wrong is set by the test."""

    def __init__(self, account: Path) -> None:
        """`account` becomes the folder that a pod finds its token and the authority in."""
        self.objects: dict[str, object] = {}
        self.statuses: dict[str, int] = {}
        """What to answer instead, for paths that begin so."""
        self.answer: Answer | None = None
        self.reviews: dict[str, Document] = {}
        """The status of a TokenReview by the token that is asked about."""
        self.token = "t0ken"
        self.seen: list[str] = []
        """Every path that was asked for, with what was asked about it."""
        self._stopped = threading.Event()
        authority = trustme.CA()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        account.mkdir(exist_ok=True)
        authority.cert_pem.write_to_path(str(account / "ca.crt"))
        (account / "token").write_text(self.token + "\n")
        self._server = _Server(self._handler(), context)
        self.environ = {
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self._server.server_port),
        }
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def add(self, document: Document, namespace: str = "ns") -> None:
        """A pod."""
        metadata = document["metadata"]
        assert isinstance(metadata, dict)
        self.objects[pod_path(metadata["name"], namespace)] = document

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                server.seen.append(self.path)
                if server.answer is not None:
                    server.answer(self, server._stopped)
                else:
                    server._reply(self)

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.seen.append(asked["spec"]["token"])
                if server.answer is not None:
                    server.answer(self, server._stopped)
                else:
                    server._review(self, asked)

            def log_message(self, format: str, *args: object) -> None:
                """Quiet."""

        return Handler

    def _reply(self, handler: BaseHTTPRequestHandler) -> None:
        path = handler.path.partition("?")[0]
        status = 200 if path in self.objects else 404
        if handler.headers["Authorization"] != f"Bearer {self.token}":
            status = 401
        for start, instead in self.statuses.items():
            status = instead if path.startswith(start) else status
        said = self.objects[path] if status == 200 else {"kind": "Status", "code": status}
        send(handler, json.dumps(said).encode(), status)

    def _review(self, handler: BaseHTTPRequestHandler, asked: Document) -> None:
        """As kubernetes/pkg/registry/authentication/tokenreview/storage.go answers: 201, also about a bad token."""
        status = next((code for path, code in self.statuses.items() if path in handler.path), 201)
        spec = asked["spec"]
        assert isinstance(spec, dict)
        unknown = {"user": {}, "error": "[invalid bearer token, unknown]"}
        answer = {**asked, "metadata": {}, "status": self.reviews.get(spec["token"], unknown)}
        send(handler, json.dumps(answer).encode(), status)

    def stop(self) -> None:
        self._stopped.set()
        self._server.shutdown()
        self._thread.join()
        for connection in self._server.connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._server.server_close()


def send(handler: BaseHTTPRequestHandler, body: bytes, status: int = 200) -> None:
    handler.send_response(status)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)
