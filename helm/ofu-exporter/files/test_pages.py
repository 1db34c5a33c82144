"""What the pod of `helm test` runs: every exporter behind a service answers, HOST and PORT given.

Only the standard library: it is started by `python -c`.
"""

import http.client
import socket
import sys


def get(address: str, port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(address, port, timeout=10)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def problem(address: str, port: int) -> str:
    """What is wrong with one exporter, or nothing."""
    try:
        healthy, _ = get(address, port, "/healthz")
        status, page = get(address, port, "/metrics")
        _, ready = get(address, port, "/readyz")
    except OSError as error:
        return f"does not answer: {error}"
    if healthy != 200 or status != 200 or "\nofu_exporter_build_info" not in page:
        return f"/healthz {healthy}, /metrics {status}: not an exporter that works"
    print(
        f"{address}: {ready.strip()}"
    )  # a node whose GPUs cannot be read is no fault of the chart
    return ""


def main(host: str, port: int) -> int:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror:
        print(f"{host} has no address: no node runs the exporter, see affinity and nodeSelector")
        return 1
    problems = {address: problem(address, port) for *_, (address, *_) in found}
    for address, text in problems.items():
        if text:
            print(f"{address} {text}")
    return 1 if any(problems.values()) else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], int(sys.argv[2])))
