"""What the pod of `helm test` runs: every exporter behind a service answers.

Given are HOST PORT http|https open|closed.
A closed exporter lets in nobody without a certificate or a password. This has neither, so it looks no further.

Only the standard library: it is started by `python -c`.
"""

import http.client
import socket
import ssl
import sys


def connect(address: str, port: int, scheme: str) -> http.client.HTTPConnection:
    if scheme == "http":
        return http.client.HTTPConnection(address, port, timeout=10)
    # The question is whether it answers. Whether it is who it says, Prometheus asks.
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return http.client.HTTPSConnection(address, port, timeout=10, context=context)


def get(address: str, port: int, scheme: str, path: str) -> tuple[int, str]:
    connection = connect(address, port, scheme)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def refusal(address: str, port: int, scheme: str) -> str:
    """What is wrong with a closed exporter, or nothing."""
    try:
        socket.create_connection((address, port), timeout=10).close()
    except OSError as error:
        return f"does not answer: {error}"
    try:
        status, _ = get(address, port, scheme, "/metrics")
    except (OSError, http.client.HTTPException):
        status = 0  # it hung up
    if status not in (0, 401):
        return f"/metrics {status}: everybody is let in"
    print(f"{address}: lets in nobody without a certificate or a password")
    return ""


def problem(address: str, port: int, scheme: str) -> str:
    """What is wrong with an open exporter, or nothing."""
    try:
        healthy, _ = get(address, port, scheme, "/healthz")
        status, page = get(address, port, scheme, "/metrics")
        _, ready = get(address, port, scheme, "/readyz")
    except (OSError, http.client.HTTPException) as error:
        return f"does not answer: {error}"
    if healthy != 200 or status != 200 or "\nofu_exporter_build_info" not in page:
        return f"/healthz {healthy}, /metrics {status}: not an exporter that works"
    # A node whose GPUs cannot be read is no fault of the chart.
    print(f"{address}: {ready.strip()}")
    return ""


def main(host: str, port: int, scheme: str, access: str) -> int:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror:
        print(f"{host} has no address: no pod of the exporter runs. If its DaemonSet wants none,")
        print("see affinity and nodeSelector; if it cannot make them, `kubectl describe` says why:")
        print("often there is no RuntimeClass of the name in driver.runtimeClassName.")
        return 1
    addresses = sorted({str(place[0]) for *_, place in found})
    look = refusal if access == "closed" else problem
    problems = {address: look(address, port, scheme) for address in addresses}
    for address, text in problems.items():
        if text:
            print(f"{address} {text}")
    return 1 if any(problems.values()) else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]))
