# Builds the image from locked packages (deploy/image), and from nothing else of the network:
#
#     docker build --build-arg BASE=python:3.12-slim@sha256:... --tag ofu-exporter:0.1.0 .
#
# Without the digest the build takes whatever the tag means that day. Both stages have the same base, so
# that the environment made in the first runs in the second. Behind a proxy that inspects TLS, give the
# certificates that it signs with; they are not kept in the image:
#
#     docker build --build-arg HTTPS_PROXY --secret id=ca,src=/etc/ssl/certs/ca-certificates.crt ...
ARG BASE=python:3.12-slim

FROM ${BASE} AS build
WORKDIR /src
COPY deploy/image/build-requirements.txt deploy/image/requirements.txt ./
# The environment has no pip of its own: nothing is installed once the image is built.
RUN --mount=type=secret,id=ca \
    if [ -s /run/secrets/ca ]; then export PIP_CERT=/run/secrets/ca; fi \
    && python -m venv /build \
    && /build/bin/pip install --no-cache-dir --require-hashes --only-binary :all: \
        --requirement build-requirements.txt \
    && python -m venv --without-pip /opt/ofu-exporter \
    && /build/bin/pip --python /opt/ofu-exporter/bin/python install --no-cache-dir \
        --require-hashes --only-binary :all: --requirement requirements.txt
COPY pyproject.toml README.md LICENSE ./
COPY helm/ofu-exporter/files helm/ofu-exporter/files
COPY deploy/systemd deploy/systemd
COPY deploy/slurm deploy/slurm
COPY deploy/man deploy/man
COPY ofu_exporter ofu_exporter
RUN /build/bin/pip wheel --no-cache-dir --no-deps --no-index --no-build-isolation --wheel-dir /wheels . \
    && /build/bin/pip --python /opt/ofu-exporter/bin/python install --no-cache-dir --no-deps --no-index \
        /wheels/*.whl

FROM ${BASE}
ARG BASE
ARG VERSION=
ARG REVISION=
LABEL org.opencontainers.image.title="ofu-exporter" \
      org.opencontainers.image.description="Prometheus exporter of Overall FLOP Utilization (OFU) of NVIDIA GPUs" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="${BASE}" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /opt/ofu-exporter /opt/ofu-exporter
# The two NVIDIA variables ask the NVIDIA container runtime for every GPU of the node, and for the
# library that reads counters (utility), not for CUDA. The image itself has no NVIDIA library: it
# must be the driver's own.
ENV PATH="/opt/ofu-exporter/bin:${PATH}" \
    PYTHONDONTWRITEBYTECODE=1 \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=utility
# By number: Kubernetes cannot tell that a user given by name is not root.
USER 65532:65532
EXPOSE 9846
# Alive, not ready: a node whose GPUs cannot be read must still say so on /metrics, not be restarted.
# With another listen address, give another command (docker run --health-cmd).
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s \
    CMD ["python", "-c", "from http.client import HTTPConnection as C; c = C('127.0.0.1', 9846, timeout=4); c.request('GET', '/healthz'); raise SystemExit(c.getresponse().status != 200)"]
ENTRYPOINT ["ofu-exporter"]
CMD ["run"]
