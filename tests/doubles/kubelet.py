"""A stand-in for kubelet: a real gRPC server on a Unix socket that says which pod has which device.

Messages are made by the real protobuf library from the field numbers of kubelet's api.proto.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

GPU = "nvidia.com/gpu"

# Name, number, type; a type in capitals is a message, * means any number of them.
MESSAGES = {
    "ListPodResourcesRequest": "",
    "ListPodResourcesResponse": "pod_resources 1 *PodResources",
    "PodResources": (
        "name 1 string, namespace 2 string, containers 3 *ContainerResources, "
        "cpu_ids 4 *int64, memory 5 *ContainerMemory"
    ),
    "ContainerResources": (
        "name 1 string, devices 2 *ContainerDevices, cpu_ids 3 *int64, "
        "memory 4 *ContainerMemory, dynamic_resources 5 *DynamicResource"
    ),
    "ContainerDevices": "resource_name 1 string, device_ids 2 *string, topology 3 TopologyInfo",
    "ContainerMemory": "memory_type 1 string, size 2 uint64, topology 3 TopologyInfo",
    "TopologyInfo": "nodes 1 *NUMANode",
    "NUMANode": "ID 1 int64",
    "DynamicResource": (
        "class_name 1 string, claim_name 2 string, claim_namespace 3 string, "
        "claim_resources 4 *ClaimResource"
    ),
    "ClaimResource": (
        "cdi_devices 1 *CDIDevice, driver_name 2 string, pool_name 3 string, "
        "device_name 4 string, share_id 5 string"
    ),
    "CDIDevice": "name 1 string",
}
Message = Any
"""Of a class that the library makes while the tests run, so that no type checker knows it."""


def _classes() -> Mapping[str, Callable[..., Message]]:
    file = descriptor_pb2.FileDescriptorProto(name="kubelet.proto", package="v1", syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for text in filter(None, fields.split(", ")):
            field_name, number, kind = text.split()
            field = message.field.add(name=field_name, number=int(number))
            field.label = field.LABEL_REPEATED if kind[0] == "*" else field.LABEL_OPTIONAL
            kind = kind.lstrip("*")
            if kind in MESSAGES:
                field.type, field.type_name = field.TYPE_MESSAGE, f".v1.{kind}"
            else:
                field.type = getattr(field, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"v1.{name}"))
        for name in MESSAGES
    }


CLASSES = _classes()


def make(kind: str, /, **fields: object) -> Message:
    """A message of kubelet's."""
    return CLASSES[kind](**fields)


def given(resource: str, *ids: str) -> list[Message]:
    """Devices of a device plugin, each by itself and in any order, as kubelet lists them."""
    topology = make("TopologyInfo", nodes=[make("NUMANode", ID=1)])
    devices = [
        make("ContainerDevices", resource_name=resource, device_ids=[name], topology=topology)
        for name in ids
    ]
    random.shuffle(devices)
    return devices


def claimed(
    *devices: str, driver: str = "gpu.nvidia.com", share: str = "", uid: str = "", claim: str = "c"
) -> Message:
    """Devices of one ResourceClaim.

    As kubelet does, each is listed with the CDI names of all before it too. With a uid they are named as by NVIDIA's
    driver since 25.12 (`GetClaimDeviceName` in its cdi.go).
    """
    kind = f"claim={uid}-" if uid else "device="
    cdi = [make("CDIDevice", name=f"k8s.{driver}/{kind}{name}") for name in devices]
    resources = [
        make(
            "ClaimResource",
            cdi_devices=cdi[: number + 1],
            driver_name=driver,
            pool_name="node-1",
            device_name=name,
            share_id=share,
        )
        for number, name in enumerate(devices)
    ]
    return make(
        "DynamicResource", claim_name=claim, claim_namespace="ns", claim_resources=resources
    )


def pod(
    name: str,
    devices: Sequence[Message] = (),
    claims: Sequence[Message] = (),
    namespace: str = "ns",
    cpus: int = 0,
    container: str = "worker",
) -> Message:
    """A pod with a sidecar that has no device, and a container that has what is given."""
    worker = make(
        "ContainerResources",
        name=container,
        devices=devices,
        dynamic_resources=claims,
        cpu_ids=range(cpus),
        memory=[make("ContainerMemory", memory_type="memory", size=2**30)] if cpus else [],
    )
    sidecar = make("ContainerResources", name="sidecar")
    return make("PodResources", name=name, namespace=namespace, containers=[sidecar, worker])


def response(pods: Sequence[Message]) -> Message:
    return make("ListPodResourcesResponse", pod_resources=pods)


class Kubelet:
    """Serves `pods` on `path` from start() to stop(); what goes wrong is set by the test."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.pods: Sequence[Message] = ()
        self.refusal: tuple[grpc.StatusCode, str] | None = None
        self.is_hung = False
        self.calls = 0
        self._awake = threading.Event()
        self._server: grpc.Server | None = None

    def start(self) -> None:
        """As kubelet does: a new socket under a temporary name, moved over the old one."""
        fresh = self.path.with_suffix(".new")
        self._awake = threading.Event()
        self._server = grpc.server(ThreadPoolExecutor(4))
        self._server.add_generic_rpc_handlers([self._service()])
        self._server.add_insecure_port(f"unix:{fresh}")
        self._server.start()
        fresh.replace(self.path)

    def stop(self) -> None:
        """As kubelet does: its socket's file stays."""
        if self._server is not None:
            self._awake.set()
            self._server.stop(None).wait()
            self._server = None

    def _service(self) -> grpc.GenericRpcHandler:
        method = grpc.unary_unary_rpc_method_handler(
            lambda _, context: self._list(context),
            request_deserializer=CLASSES["ListPodResourcesRequest"].FromString,  # type: ignore[attr-defined]
            response_serializer=lambda message: message.SerializeToString(),
        )
        handler: grpc.GenericRpcHandler = grpc.method_handlers_generic_handler(
            "v1.PodResourcesLister", {"List": method}
        )
        return handler

    def _list(self, context: grpc.ServicerContext) -> Message:
        self.calls += 1
        if self.is_hung:
            self._awake.wait()
        if self.refusal is not None:
            context.abort(*self.refusal)
        shuffled = list(self.pods)
        random.shuffle(shuffled)  # kubelet keeps its pods in a Go map
        return response(shuffled)
