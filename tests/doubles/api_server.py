"""A stand-in for the Kubernetes API server: HTTPS with an authority of its own, and a token to ask for."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import trustme

from tests.helpers.quiet_server import QuietHandler, StoppedServer

Answer = Callable[[QuietHandler, threading.Event], None]
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
        authority = trustme.CA()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        account.mkdir(exist_ok=True)
        authority.cert_pem.write_to_path(str(account / "ca.crt"))
        (account / "token").write_text(self.token + "\n")
        self._server = StoppedServer(self._handler(), tls=context)
        self.stop = self._server.stop
        self.environ = {
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self._server.server_port),
        }

    def add(self, document: Document, namespace: str = "ns") -> None:
        """A pod."""
        metadata = document["metadata"]
        assert isinstance(metadata, dict)
        self.objects[pod_path(metadata["name"], namespace)] = document

    def _handler(self) -> type[QuietHandler]:
        server = self

        class Handler(QuietHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                server.seen.append(self.path)
                if server.answer is not None:
                    server.answer(self, server._server.stopped)
                else:
                    server._reply(self)

            def do_POST(self) -> None:
                asked = json.loads(self.sent())
                server.seen.append(asked["spec"]["token"])
                if server.answer is not None:
                    server.answer(self, server._server.stopped)
                else:
                    server._review(self, asked)

        return Handler

    def _reply(self, handler: QuietHandler) -> None:
        path = handler.path.partition("?")[0]
        status = 200 if path in self.objects else 404
        if handler.headers["Authorization"] != f"Bearer {self.token}":
            status = 401
        for start, instead in self.statuses.items():
            status = instead if path.startswith(start) else status
        said = self.objects[path] if status == 200 else {"kind": "Status", "code": status}
        send(handler, json.dumps(said).encode(), status)

    def _review(self, handler: QuietHandler, asked: Document) -> None:
        """As kubernetes/pkg/registry/authentication/tokenreview/storage.go answers: 201, also about a bad token."""
        status = next((code for path, code in self.statuses.items() if path in handler.path), 201)
        spec = asked["spec"]
        assert isinstance(spec, dict)
        unknown = {"user": {}, "error": "[invalid bearer token, unknown]"}
        answer = {**asked, "metadata": {}, "status": self.reviews.get(spec["token"], unknown)}
        send(handler, json.dumps(answer).encode(), status)


def send(handler: QuietHandler, body: bytes, status: int = 200) -> None:
    handler.reply(body, status, {"Content-Type": "application/json"})
