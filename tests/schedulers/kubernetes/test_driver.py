"""What the Kubernetes scheduler promises, shown on a real gRPC server and a real HTTPS server."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import grpc
import pytest

from ofu_exporter.schedulers.kubernetes import driver, gpu_pods, workloads
from ofu_exporter.schedulers.kubernetes.pod_resources import ClaimedDevice
from ofu_exporter.values import device_names
from ofu_exporter.values.job import Job
from ofu_exporter.values.reasons import SchedulerReason
from tests.doubles import api_server as doubles
from tests.doubles.kubelet import GPU, claimed, make, pod
from tests.doubles.kubelet import given as devices_of
from tests.helpers.every import every
from tests.helpers.kubernetes_bench import NODE, Bench, holding
from tests.helpers.markdown import with_section

PAGE = Path(__file__).parents[3] / "docs" / "kubernetes.md"


# What kubelet says.


def test_a_pod_is_a_job_with_its_devices(bare: Bench) -> None:
    (claim,) = bare.answer(holding("train-0", "GPU-b", "GPU-a", namespace="team"))
    assert claim.devices == ("GPU-a", "GPU-b")
    assert claim.job == Job("kubernetes", "team/train-0", name="train-0", namespace="team")


def test_pods_without_gpus_are_not_reported_nor_asked_about(bench: Bench) -> None:
    nic = pod("nic", devices_of("rdma/hca", "mlx5_0"), cpus=8)
    other = pod("other-gpu", devices_of("amd.com/gpu", "0"))
    memory = pod("memory", devices_of("nvidia.com/gpumem", "0"))
    assert bench.claims(pod("plain", cpus=4), nic, other, memory) == {}
    assert bench.api.seen == []


def test_the_order_is_not_kubelets(bare: Bench) -> None:
    """Kubelet lists pods and devices in another order each time: that is no change."""
    bare.hold(*(holding(f"p{number}", f"GPU-{number}") for number in range(20)))
    assert [bare.answer() for _ in range(5)] == [bare.answer()] * 5


@pytest.mark.parametrize(
    ("resource", "more", "is_gpu"),
    [
        ("nvidia.com/gpu", "", True),
        ("nvidia.com/gpu.shared", "", True),
        ("nvidia.com/gpu.a100-80", "", True),
        ("nvidia.com/mig-1g.10gb", "", True),
        ("nvidia.com/mig-1g.10gb.shared", "", True),
        ("nvidia.com/gpumem", "", False),
        ("nvidia.com/hostdev", "", False),
        ("example.com/a100", "", False),
        ("example.com/a100", "example.com/h100, example.com/a100", True),
    ],
)
def test_which_resources_are_gpus(bare: Bench, resource: str, more: str, is_gpu: bool) -> None:
    bare.make(kubernetes_metadata="off", kubernetes_resources=more)
    assert bool(bare.claims(pod("p", devices_of(resource, "GPU-a")))) == is_gpu


def test_devices_of_all_containers_count_once(bare: Bench) -> None:
    containers = [
        make("ContainerResources", name=name, devices=devices_of(GPU, *ids))
        for name, ids in {"a": ("GPU-a", "GPU-a"), "b": ("GPU-b", "GPU-a")}.items()
    ]
    twice = make("PodResources", name="p", namespace="ns", containers=containers)
    assert bare.claims(twice) == {"ns/p": ("GPU-a", "GPU-b")}


@pytest.mark.parametrize(
    "name",
    ["GPU-a", "MIG-a", "MIG-GPU-a/1/0", "nvidia0", "nvidia0/gi3", "GPU-a::0", "nvidia0/vgpu1"],
)
def test_names_of_devices_are_passed_on_as_they_are(bare: Bench, name: str) -> None:
    assert bare.claims(holding("p", name)) == {"ns/p": (name,)}


def test_shares_of_a_gpu_are_each_their_jobs_own(bare: Bench) -> None:
    pods = [holding("a", "GPU-a::0", "GPU-a::1"), holding("b", "GPU-a::2")]
    assert bare.claims(*pods) == {"ns/a": ("GPU-a::0", "GPU-a::1"), "ns/b": ("GPU-a::2",)}


def test_two_pods_of_one_name_are_one(bare: Bench) -> None:
    """One that has ended may be listed beside its successor."""
    assert bare.claims(holding("p", "GPU-a"), holding("p", "GPU-b")) == {"ns/p": ("GPU-a", "GPU-b")}


def restarted(bare: Bench) -> None:
    bare.claims(holding("a", "GPU-a"), holding("b", "GPU-b"))
    bare.kubelet.stop()
    bare.kubelet.start()


def test_a_kubelet_that_does_not_know_its_pods_yet_ends_no_job(bare: Bench) -> None:
    """It answers before the API server has told it what runs here."""
    restarted(bare)
    bare.hold(pod("plain"))
    assert bare.failure().reason is SchedulerReason.SETTLING
    bare.hold(holding("a", "GPU-a"))
    assert "1 of its pods" in bare.failure().detail
    assert set(bare.claims(holding("a", "GPU-a"), holding("b", "GPU-b"))) == {"ns/a", "ns/b"}
    assert set(bare.claims(holding("a", "GPU-a"))) == {"ns/a"}, "it has listed them all: it knows"
    assert bare.claims(pod("plain")) == {}


def test_a_kubelet_without_its_api_server_ends_no_job(bare: Bench) -> None:
    """As seen with kubelet 1.20: it lists static pods only until it has heard from the API server."""
    restarted(bare)
    bare.hold(pod("static"))
    for _ in range(4):
        bare.clock.now += 60.0
        assert bare.failure().reason is SchedulerReason.SETTLING
    bare.hold(holding("a", "GPU-a"))
    bare.clock.now += driver.SETTLE_SECONDS - 1.0
    assert bare.failure().reason is SchedulerReason.SETTLING
    assert set(bare.claims(after=1.0)) == {"ns/a"}, "the other pod is gone"


def test_pods_that_a_restarted_kubelet_never_lists_are_gone_in_the_end(bare: Bench) -> None:
    restarted(bare)
    bare.hold(pod("static"))
    assert bare.failure().reason is SchedulerReason.SETTLING
    assert bare.claims(after=driver.BLANK_SECONDS) == {}


@pytest.mark.parametrize("name", ["", "x" * 254, "a/b", "a b", "a\n", "é"])
def test_an_impossible_name_costs_its_own_pod_only(bare: Bench, name: str) -> None:
    pods = [holding(name, "GPU-a"), holding("p", "GPU-b", namespace=name), holding("p", "GPU-c")]
    assert bare.claims(*pods) == {"ns/p": ("GPU-c",)}
    assert bare.rejected == {"malformed": 2}


@pytest.mark.parametrize("name", ["", "x" * 257, "GPU\n"])
def test_an_impossible_device_costs_itself_only(bare: Bench, name: str) -> None:
    assert bare.claims(holding("p", "GPU-a", name)) == {"ns/p": ("GPU-a",)}
    assert bare.rejected == {"malformed": 1}


def test_more_pods_with_gpus_than_a_node_can_have_are_an_error(
    bare: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "MAX_GPU_PODS", 2)
    bare.hold(*(holding(f"p{number}", f"GPU-{number}") for number in range(3)))
    assert bare.failure().reason is SchedulerReason.TOO_LARGE


# Devices that are given out through ResourceClaims.


def slices(
    version: str, uuids: Mapping[str, str], driver: str = gpu_pods.DRIVER
) -> dict[str, object]:
    """The ResourceSlices of a node, in the words of an API version."""
    offered: list[dict[str, object]] = []
    for name, uuid in uuids.items():
        said = {"attributes": {"uuid": {"string": uuid}, "type": {"string": "gpu"}}}
        offered.append({"name": name, **({"basic": said} if version == "v1beta1" else said)})
    spec = {"driver": driver, "pool": {"name": NODE}, "nodeName": NODE, "devices": offered}
    return {"items": [{"spec": spec}, {"spec": {**spec, "devices": None}}]}


def test_a_gpu_is_named_after_its_device_file(bare: Bench) -> None:
    assert bare.claims(pod("p", claims=[claimed("gpu-0", "gpu-11")])) == {
        "ns/p": ("nvidia0", "nvidia11")
    }


def test_devices_of_other_drivers_are_no_gpus(bare: Bench) -> None:
    channel = claimed("channel-0", driver="compute-domain.nvidia.com")
    assert bare.claims(pod("p", claims=[channel])) == {}


@pytest.mark.parametrize("name", ["gpu-0-mig-9-4-2", "gpu-0-mig-1g10gb-19-0", "gpu-vfio-0"])
def test_a_device_that_cannot_be_made_out_is_passed_on_by_its_name(bare: Bench, name: str) -> None:
    assert bare.claims(pod("p", claims=[claimed(name)])) == {"ns/p": (name,)}


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_uuids_are_read_from_the_resource_slices(bench: Bench, version: str) -> None:
    uuids = {"gpu-0": "GPU-a", "gpu-1-mig-9-4-2": "MIG-b"}
    bench.api.objects[f"/apis/resource.k8s.io/{version}/resourceslices"] = slices(version, uuids)
    bench.api.add(doubles.pod("p"))
    held = pod("p", claims=[claimed("gpu-0", "gpu-1-mig-9-4-2", "gpu-2")])
    assert bench.claims(held) == {"ns/p": ("GPU-a", "MIG-b", "nvidia2")}
    selector = "fieldSelector=spec.nodeName%3Dnode-1%2Cspec.driver%3Dgpu.nvidia.com"
    assert any(selector in path for path in bench.api.seen)


def test_slices_of_other_drivers_say_nothing(bench: Bench) -> None:
    foreign = slices("v1", {"gpu-0": "GPU-a"}, driver="gpu.example.com")
    bench.api.objects["/apis/resource.k8s.io/v1/resourceslices"] = foreign
    bench.api.add(doubles.pod("p"))
    assert bench.claims(pod("p", claims=[claimed("gpu-0")])) == {"ns/p": ("nvidia0",)}


def test_slices_are_not_asked_for_without_need(bench: Bench) -> None:
    bench.api.add(doubles.pod("p"))
    bench.claims(holding("p", "GPU-a"))
    bench.make(node_name="")
    bench.claims(pod("p", claims=[claimed("gpu-0")]))
    assert not [path for path in bench.api.seen if "resourceslices" in path]


@pytest.mark.parametrize("document", [[], {"items": 5}, {"items": [{"spec": {}}]}, "x"])
def test_slices_that_are_refused_or_damaged_cost_nothing_else(
    bench: Bench, document: object
) -> None:
    bench.api.objects["/apis/resource.k8s.io/v1/resourceslices"] = document
    bench.api.add(doubles.pod("p", {"ray.io/cluster": "ray"}))
    held = pod("p", claims=[claimed("gpu-0")])
    assert bench.claims(held) == {"ns/ray": ("nvidia0",)}
    bench.make()
    bench.api.statuses["/apis/resource.k8s.io"] = 403
    assert bench.claims() == {"ns/ray": ("nvidia0",)}
    assert bench.rejected == {"unreadable": 2}, "slices and claim"


def test_a_claim_of_several_jobs_is_shared_on_purpose(bare: Bench) -> None:
    pods = [pod(name, claims=[claimed("gpu-0")]) for name in ("a", "b")]
    shared = bare.claims(*pods)
    assert shared == {"ns/a": ("nvidia0::0",), "ns/b": ("nvidia0::1",)}
    assert all(device_names.parse(name).shared for names in shared.values() for name in names)


def test_a_claim_of_several_pods_of_one_job_is_not(bench: Bench) -> None:
    for name in ("a", "b"):
        bench.api.add(doubles.pod(name, {"ray.io/cluster": "ray"}))
    assert bench.claims(*(pod(name, claims=[claimed("gpu-0")]) for name in ("a", "b"))) == {
        "ns/ray": ("nvidia0",)
    }


def test_a_part_of_a_device_is_a_share(bare: Bench) -> None:
    held = pod("p", claims=[claimed("gpu-0", share="2f1c")])
    assert bare.claims(held) == {"ns/p": ("nvidia0::0",)}


@every(
    [
        ("k8s.gpu.nvidia.com/device=gpu-3", ["gpu-3"]),
        ("k8s.gpu.nvidia.com/claim=0e4ca4a1-2f3b-4c5d-8e6f-7a8b9c0d1e2f-gpu-3", ["gpu-3"]),
        ("k8s.gpu.example.com/device=gpu-3", []),
        ("nvidia.com/gpu=0", []),
    ]
)
def test_old_kubelets_say_only_what_the_runtime_is_told(cdi: str, found: list[str]) -> None:
    named = gpu_pods.allotted(ClaimedDevice("", "", "", "", (cdi,)))
    assert [each.name for each in named] == found


def looked_at(version: str, *admin: str) -> dict[str, object]:
    """A path of the API server, and the ResourceClaim there: gpu-0 to be had, these devices to be looked at.

    https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/resource-claim-v1/ has its results.
    """
    base = {"driver": "gpu.nvidia.com", "pool": NODE, "request": "all"}
    seen = [{**base, "device": name, "adminAccess": True} for name in admin]
    results = [{**base, "device": "gpu-0"}, *seen, {**seen[0], "driver": "x", "device": "gpu-0"}]
    claim = {"status": {"allocation": {"devices": {"results": results}}}}
    return {f"/apis/resource.k8s.io/{version}/namespaces/ns/resourceclaims/c": claim}


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_pod_with_admin_access_holds_nothing(bench: Bench, version: str) -> None:
    """A monitoring pod sees every GPU of the node; the job on them has them alone."""
    bench.api.objects |= looked_at(version, "gpu-1", "gpu-2")
    for name in ("monitor", "job"):
        bench.api.add(doubles.pod(name))
    monitor = pod("monitor", claims=[claimed("gpu-1", "gpu-2")])
    job = pod("job", claims=[claimed("gpu-1", claim="d")])
    assert bench.claims(monitor, job) == {"ns/job": ("nvidia1",)}
    both = pod("job", claims=[claimed("gpu-0", "gpu-1", "gpu-2")])
    assert bench.claims(both, after=20.0) == {"ns/job": ("nvidia0",)}
    asked = [path for path in bench.api.seen if "resourceclaims/c?" in path]
    assert len(asked) == (1 if version == "v1" else 3), "a claim is asked about once"


@pytest.mark.parametrize(
    "document", [[], {"status": 5}, {"status": {"allocation": {"devices": 5}}}]
)
def test_a_claim_that_cannot_be_read_is_held(bench: Bench, document: object) -> None:
    (path,) = looked_at("v1", "gpu-1")
    bench.api.objects[path] = document
    bench.api.add(doubles.pod("p"))
    assert bench.claims(pod("p", claims=[claimed("gpu-1")])) == {"ns/p": ("nvidia1",)}
    assert bench.rejected == {"unreadable": 1}


# Pods that run slurmd: Slinky's NodeSet and Soperator's worker both call the container so.


def test_the_gpus_of_a_pod_that_runs_slurmd_are_those_of_slurms_jobs(
    bare: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    slurmd = pod("slurm-worker-0", devices_of(GPU, "GPU-a", "GPU-b"), container="slurmd")
    for _ in range(2):
        assert bare.claims(slurmd, holding("plain", "GPU-c")) == {"ns/plain": ("GPU-c",)}
    told = [each for each in caplog.messages if "runs slurmd" in each]
    assert told == ["pod ns/slurm-worker-0 runs slurmd: its GPUs are those of Slurm's jobs"]
    given_by_dra = pod("slurm-worker-1", claims=[claimed("gpu-0")], container="slurmd")
    assert bare.claims(given_by_dra) == {}


def test_a_container_that_runs_slurmd_under_another_name_can_be_named(bare: Bench) -> None:
    own = pod("w", devices_of(GPU, "GPU-a"), container="node")
    assert bare.claims(own) == {"ns/w": ("GPU-a",)}
    bare.make(kubernetes_metadata="off", slurm_containers="slurmd, node")
    assert bare.claims(own) == {}
    bare.make(kubernetes_metadata="off", slurm_containers="")
    assert bare.claims(pod("w", devices_of(GPU, "GPU-a"), container="slurmd")) != {}


# Which job a pod is part of.

RAY = ("ray.io/v1", "RayCluster", "ray", "uid-ray")
STATEFUL = ("apps/v1", "StatefulSet", "sts-0", "uid-sts")


@pytest.mark.parametrize(
    ("labels", "owner", "name", "uid"),
    [
        (
            {"jobset.sigs.k8s.io/jobset-name": "js", "jobset.sigs.k8s.io/jobset-uid": "uid-js"},
            ("batch/v1", "Job", "js-workers-0", "uid-of-one-job"),
            "js",
            "uid-js",
        ),
        ({"leaderworkerset.sigs.k8s.io/name": "lws"}, STATEFUL, "lws", ""),
        (
            {"training.kubeflow.org/job-name": "pt"},
            ("kubeflow.org/v1", "PyTorchJob", "pt", "uid-pt"),
            "pt",
            "uid-pt",
        ),
        (
            {"training.kubeflow.org/job-name": "mpi", "job-name": "mpi-launcher"},
            ("batch/v1", "Job", "mpi-launcher", "uid-launcher"),
            "mpi",
            "",
        ),
        ({"ray.io/cluster": "ray"}, RAY, "ray", "uid-ray"),
        (
            {"volcano.sh/job-name": "vc"},
            ("batch.volcano.sh/v1alpha1", "Job", "vc", "uid-vc"),
            "vc",
            "uid-vc",
        ),
        ({"sparkoperator.k8s.io/app-name": "app"}, ("v1", "Pod", "driver", "u"), "app", ""),
        ({"serving.kserve.io/inferenceservice": "llm"}, None, "llm", ""),
        ({"skypilot-cluster-name": "sky"}, None, "sky", ""),
        (
            {"pod-template-hash": "5d9c7b6f48"},
            ("apps/v1", "ReplicaSet", "web-5d9c7b6f48", "uid-rs"),
            "web",
            "",
        ),
        (
            {"rollouts-pod-template-hash": "6c54"},
            ("apps/v1", "ReplicaSet", "web-6c54", "uid-rs"),
            "web",
            "",
        ),
        ({}, ("apps/v1", "ReplicaSet", "alone", "uid-rs"), "alone", "uid-rs"),
        ({"job-name": "x"}, ("batch/v1", "Job", "train", "uid-job"), "train", "uid-job"),
        ({}, STATEFUL, "sts-0", "uid-sts"),
        ({}, ("apps/v1", "DaemonSet", "burn", "uid-ds"), "burn", "uid-ds"),
        ({}, ("example.com/v1", "Sweep", "sweep", "uid-s"), "sweep", "uid-s"),
        ({}, ("v1", "Node", "node-1", "uid-node"), "p", "uid-of-p"),
        ({"kueue.x-k8s.io/pod-group-name": "group"}, None, "group", ""),
        ({"kueue.x-k8s.io/pod-group-name": "sts-0-1f"}, STATEFUL, "sts-0", "uid-sts"),
        ({}, None, "p", "uid-of-p"),
    ],
)
def test_the_job_is_the_topmost_workload(
    bench: Bench,
    labels: dict[str, str],
    owner: tuple[str, str, str, str] | None,
    name: str,
    uid: str,
) -> None:
    bench.api.add(doubles.pod("p", labels, owner=owner))
    (job,) = bench.jobs(holding("p", "GPU-a")).values()
    assert (job.job_id, job.name, job.namespace, job.uid) == (f"ns/{name}", name, "ns", uid)


def test_every_rule_is_tried_by_a_test() -> None:
    text = Path(__file__).read_text()
    for rule in workloads.RULES:
        said = [rule.label, rule.uid_label] if isinstance(rule, workloads.ByLabel) else [rule.kind]
        assert all(f'"{word}"' in text for word in said if word), rule


def saying(place: str, words: dict[str, str]) -> doubles.Document:
    """A pod with these labels or annotations."""
    is_label = place == "labels"
    return doubles.pod("p", words if is_label else None, None if is_label else words)


@pytest.mark.parametrize("queue", workloads.QUEUES)
@pytest.mark.parametrize("place", ["labels", "annotations"])
def test_the_queue_is_the_partition(bench: Bench, queue: str, place: str) -> None:
    bench.api.add(saying(place, {queue: "gpus"}))
    assert bench.jobs(holding("p", "GPU-a"))["ns/p"].partition == "gpus"


@pytest.mark.parametrize("place", ["labels", "annotations"])
def test_user_and_account_are_where_the_settings_say(bench: Bench, place: str) -> None:
    bench.api.add(saying(place, {"example.com/owner": "ann", "team": "vision"}))
    bench.make(kubernetes_user_label="example.com/owner", kubernetes_account_label="team")
    job = bench.jobs(holding("p", "GPU-a"))["ns/p"]
    assert (job.user, job.account) == ("ann", "vision")


@pytest.mark.parametrize("text", ["x" * 257, "a\nb", "\ud800"])
def test_a_text_that_cannot_be_a_label_is_left_out(bench: Bench, text: str) -> None:
    bench.api.add(doubles.pod("p", annotations={"user": text, "team": "vision"}))
    bench.make(kubernetes_user_label="user", kubernetes_account_label="team")
    job = bench.jobs(holding("p", "GPU-a"))["ns/p"]
    assert (job.user, job.account) == ("", "vision")
    assert bench.rejected == {"malformed": 1}


def test_the_pods_of_a_job_are_one_claim_from_its_first_start(bench: Bench) -> None:
    """It may have waited in a queue for long before kubelet took it on."""
    for number, started in enumerate(["2026-03-01T10:00:05Z", "2026-03-01T10:00:00Z"]):
        bench.api.add(doubles.pod(f"p{number}", {"ray.io/cluster": "ray"}, started=started))
    (claim,) = bench.answer(holding("p0", "GPU-a"), holding("p1", "GPU-b"))
    assert claim.devices == ("GPU-a", "GPU-b")
    assert claim.job.started == 1772359200.0  # date -d 2026-03-01T10:00:00Z +%s


def test_jobs_of_one_name_in_two_namespaces_are_two(bench: Bench) -> None:
    for namespace in ("one", "two"):
        bench.api.add(doubles.pod("p", {"ray.io/cluster": "ray"}), namespace)
    pods = [holding("p", f"GPU-{name}", namespace=name) for name in ("one", "two")]
    assert bench.claims(*pods) == {"one/ray": ("GPU-one",), "two/ray": ("GPU-two",)}


def test_a_job_knows_its_pods_by_name(bench: Bench) -> None:
    """A process in a pod knows the pod's name and not its job's: it reports under that."""
    for number in range(2):
        bench.api.add(doubles.pod(f"p-{number}", {"ray.io/cluster": "ray"}))
    (claim,) = bench.answer(holding("p-0", "GPU-a"), holding("p-1", "GPU-b"))
    job = claim.job
    assert job.job_id == "ns/ray"
    assert job.aliases == ("ns/p-0", "ns/p-1")


def test_a_job_knows_the_addresses_of_its_pods(bench: Bench) -> None:
    """Not those that a pod shares with every program of its node."""
    owner = ("batch/v1", "Job", "train", "u")
    bench.api.add(doubles.pod("a", owner=owner, addresses=("10.0.0.7", "2001:DB8::7")))
    bench.api.add(doubles.pod("b", owner=owner, addresses=("10.0.0.8",)))
    bench.api.add(doubles.pod("c", owner=owner, addresses=("192.0.2.1",), host_network=True))
    pods = [holding(name, f"GPU-{name}") for name in "abc"]
    (job,) = bench.jobs(*pods).values()
    assert job.addresses == ("10.0.0.7", "10.0.0.8", "2001:db8::7")


@pytest.mark.parametrize("listed", [None, {}, "10.0.0.7", [None], [{"ip": 7}], [{"ip": "x"}], [[]]])
def test_addresses_that_cannot_be_are_none(bench: Bench, listed: object) -> None:
    document = doubles.pod("a")
    document["status"] = {"phase": "Running", "podIPs": listed}
    bench.api.add(document)
    (job,) = bench.jobs(holding("a", "GPU-a")).values()
    assert job.addresses == ()


def test_a_pod_that_is_its_own_job_has_no_other_name(bench: Bench) -> None:
    bench.api.add(doubles.pod("alone"))
    (claim,) = bench.answer(holding("alone", "GPU-a"))
    assert (claim.job.job_id, claim.job.aliases) == ("ns/alone", ())


def test_a_job_that_is_made_anew_under_its_name_is_another(bench: Bench) -> None:
    """Pods of the old one may still be ending: the newest says which it is, and when it began."""
    for name, uid, second in [("old", "uid-1", 0), ("new", "uid-2", 9)]:
        owner = ("batch/v1", "Job", "train", uid)
        started = f"2026-03-01T10:00:0{second}Z"
        bench.api.add(doubles.pod(name, owner=owner, started=started))
    (claim,) = bench.answer(holding("old", "GPU-a"), holding("new", "GPU-b"))
    assert (claim.job.uid, claim.job.started) == ("uid-2", 1772359209.0)
    assert claim.devices == ("GPU-a", "GPU-b")


def test_a_pod_that_has_ended_holds_nothing(bench: Bench) -> None:
    """Kubelets before 1.34 may list it, and do not say that it has."""
    bench.api.add(doubles.pod("done", phase="Succeeded"))
    bench.api.add(doubles.pod("p"))
    assert bench.claims(holding("done", "GPU-a"), holding("p", "GPU-a")) == {"ns/p": ("GPU-a",)}
    assert bench.rejected == {"expired": 1}


def test_a_pod_that_has_ended_is_soon_asked_about_again(bench: Bench) -> None:
    """It may have been made anew under its name between two polls."""
    bench.api.add(doubles.pod("p", phase="Failed"))
    assert bench.claims(holding("p", "GPU-a")) == {}
    bench.api.add(doubles.pod("p"))
    assert bench.claims(after=10.0) == {"ns/p": ("GPU-a",)}


def test_of_two_pods_on_one_gpu_the_newer_has_it(bench: Bench) -> None:
    """The older has ended since it was asked about."""
    bench.api.add(doubles.pod("old", started="2026-03-01T10:00:00Z"))
    bench.api.add(doubles.pod("new", started="2026-03-01T11:00:00Z"))
    held = bench.claims(holding("old", "GPU-a", "GPU-b"), holding("new", "GPU-a"))
    assert held == {"ns/old": ("GPU-b",), "ns/new": ("GPU-a",)}
    assert bench.rejected == {"expired": 1}


def test_a_gpu_that_is_shared_is_nobodys_more_than_anothers(bench: Bench) -> None:
    bench.api.add(doubles.pod("old", started="2026-03-01T10:00:00Z"))
    bench.api.add(doubles.pod("new", started="2026-03-01T11:00:00Z"))
    held = bench.claims(holding("old", "GPU-a::0"), holding("new", "GPU-a::0"))
    assert held == {"ns/old": ("GPU-a::0",), "ns/new": ("GPU-a::0",)}


@pytest.mark.parametrize("started", ["", "soon", "9999999-01-01T00:00:00Z"])
def test_without_a_start_two_pods_on_one_gpu_are_left_to_be_told_apart(
    bench: Bench, started: str
) -> None:
    bench.api.add(doubles.pod("a", started=started))
    bench.api.add(doubles.pod("b"))
    assert set(bench.claims(holding("a", "GPU-a"), holding("b", "GPU-a"))) == {"ns/a", "ns/b"}


# When the API server is asked.


@every([(True, "on"), (False, "off"), ("auto", "auto"), ("on", "on")])
def test_yaml_takes_on_for_true(written: object, meant: str) -> None:
    options = driver.Options.model_validate({"kubernetes_metadata": written})
    assert options.kubernetes_metadata == meant


def test_auto_asks_nobody_without_a_token(bench: Bench) -> None:
    (bench.account / "token").unlink()
    assert set(bench.claims(holding("p", "GPU-a"))) == {"ns/p"}
    assert (bench.api.seen, bench.rejected) == ([], {})


def test_on_says_that_the_token_is_missing(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    (bench.account / "token").unlink()
    bench.make(kubernetes_metadata="on")
    bench.claims(holding("p", "GPU-a"))
    assert set(bench.claims(after=10.0)) == {"ns/p"}
    assert "token" in caplog.text


@pytest.mark.parametrize("token", [b"two\nlines", b"\xff", b""])
def test_a_damaged_token_is_not_shown(
    bench: Bench, caplog: pytest.LogCaptureFixture, token: bytes
) -> None:
    (bench.account / "token").write_bytes(token)
    bench.claims(holding("p", "GPU-a"))
    assert set(bench.claims(after=10.0)) == {"ns/p"}
    assert "lines" not in caplog.text


def test_outside_of_a_cluster_there_is_nobody_to_ask(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.api.environ.clear()
    bench.make()
    assert set(bench.claims(holding("p", "GPU-a"))) == {"ns/p"}
    assert caplog.text == ""
    bench.make(kubernetes_metadata="on")
    bench.claims()
    assert "KUBERNETES_SERVICE_HOST" in caplog.text


def test_off_asks_nobody(bare: Bench) -> None:
    bare.api.add(doubles.pod("p", {"ray.io/cluster": "ray"}))
    assert set(bare.claims(holding("p", "GPU-a"))) == {"ns/p"}
    assert bare.api.seen == []


# Kubelets that do not answer.


@pytest.mark.parametrize(
    ("code", "text", "reason"),
    [
        ("RESOURCE_EXHAUSTED", "rejected by rate limit", SchedulerReason.RATE_LIMITED),
        ("RESOURCE_EXHAUSTED", "message larger than max", SchedulerReason.TOO_LARGE),
        ("UNAVAILABLE", "starting", SchedulerReason.UNREACHABLE),
        ("DEADLINE_EXCEEDED", "", SchedulerReason.UNREACHABLE),
        ("CANCELLED", "", SchedulerReason.UNREACHABLE),
        ("PERMISSION_DENIED", "", SchedulerReason.NO_PERMISSION),
        ("UNAUTHENTICATED", "", SchedulerReason.NO_PERMISSION),
        ("INTERNAL", "50 % of é", SchedulerReason.BAD_ANSWER),
        ("UNIMPLEMENTED", "", SchedulerReason.BAD_ANSWER),
    ],
)
def test_a_refusal_has_its_reason(
    bare: Bench, code: str, text: str, reason: SchedulerReason
) -> None:
    bare.kubelet.refusal = (grpc.StatusCode[code], text)
    failure = bare.failure()
    assert failure.reason is reason
    assert text in failure.detail
    bare.kubelet.refusal = None
    assert set(bare.claims(holding("p", "GPU-a"))) == {"ns/p"}


def test_a_node_without_kubelet_is_no_node_of_kubernetes(bare: Bench, folder: Path) -> None:
    bare.make(kubelet_socket=folder / "absent" / "kubelet.sock")
    assert bare.failure().reason is SchedulerReason.ABSENT


def test_a_kubelet_that_is_down_cannot_be_reached(bare: Bench) -> None:
    bare.kubelet.stop()
    assert bare.failure().reason is SchedulerReason.UNREACHABLE


def test_a_socket_that_goes_away_does_not_change_what_node_this_is(bare: Bench) -> None:
    bare.claims()
    bare.kubelet.stop()
    bare.kubelet.path.unlink()
    assert bare.failure().reason is SchedulerReason.UNREACHABLE


@contextlib.contextmanager
def unprivileged(folder: Path) -> Iterator[None]:
    """Without access to the folder, whoever runs the tests."""
    folder.chmod(0)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(0o700)


def test_a_socket_without_access_says_so(bare: Bench, folder: Path) -> None:
    with unprivileged(folder):
        failure = bare.failure()
    assert failure.reason is SchedulerReason.NO_PERMISSION
    assert str(bare.kubelet.path) in failure.detail


# The documentation.


def described(rule: workloads.Rule) -> tuple[str, str, str]:
    if isinstance(rule, workloads.ByLabel):
        owner = f"its owner's, if that is in `{rule.owner_group}`" if rule.owner_group else "-"
        uid = f"label `{rule.uid_label}`" if rule.uid_label else owner
        return rule.what, f"label `{rule.label}`", uid
    if not rule.hash_labels:
        return rule.what, "its owner's name", "its owner's"
    labels = " or ".join(f"`{label}`" for label in rule.hash_labels)
    return rule.what, f"its {rule.kind}'s name, without the end that is in label {labels}", "-"


def test_the_page_shows_every_rule(generated: Callable[[Path, str], None]) -> None:
    rows = ["| workload | name of the job | uid of the job |", "|---|---|---|"]
    rows += ["| " + " | ".join(described(rule)) + " |" for rule in workloads.RULES]
    generated(PAGE, with_section(PAGE, "workloads", rows))


def test_the_page_names_every_queue() -> None:
    """The settings stand in docs/configuration.md, which is made from them."""
    text = PAGE.read_text()
    for name in workloads.QUEUES:
        assert f"`{name}`" in text, name
