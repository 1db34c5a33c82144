"""Finds the job that a pod belongs to, by its labels and owner, for every framework in `RULES`.

A job must have one name on all of its nodes. So it is named after the topmost workload whose name a pod
carries, and not after the pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from ofu_exporter.support.addresses import is_address, parsed_address

LONGEST_TEXT = 256
"""Names of objects have up to 253 characters, labels 63, annotations any number."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The job that a pod is a part of, as the pod describes it."""

    name: str
    uid: str = ""
    """Uid of the job, the same in all of its pods; "" where the pods do not have it."""
    queue: str = ""
    user: str = ""
    account: str = ""
    started: float | None = None
    """Unix time at which kubelet accepted this pod; the pod may have waited for a long time before."""
    over: bool = False
    """Whether this pod has ended, whatever devices it still seems to hold."""
    pending: bool = False
    """Whether a container of this pod has never started: its image is being pulled, or it waits for a volume."""
    first_starts: Mapping[str, float] = field(default_factory=dict)
    """By container, the earliest Unix time at which the pod says that it started."""
    attempt: int | None = None
    """How often the job had been started again when this pod was made, where its controller says so."""
    restarts: Mapping[str, int] = field(default_factory=dict)
    """By container, how often it was started again in this pod."""
    finished: float | None = None
    """Unix time at which the last container of a pod that is over ended."""
    addresses: tuple[str, ...] = ()
    """The IP addresses of this pod; none while it has no network yet, and none that it shares with its node."""
    pod_uid: str = ""
    rejected: int = 0
    """How many names of the pod were left out because they are too long or not printable."""

    def after(self, before: Workload | None) -> Workload:
        """The same, with the starts from an earlier description of this pod that the current one no longer has."""
        if before is None or before.started != self.started:
            return self
        starts = dict(self.first_starts)
        for name, time in before.first_starts.items():
            starts[name] = min(time, starts.get(name, time))
        return replace(self, first_starts=starts)


class PodOwner(NamedTuple):
    """The object that made a pod and controls it."""

    group: str
    kind: str
    name: str
    uid: str


PodLabels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ByLabel:
    """The job's name is the value of a label."""

    what: str
    label: str
    uid_label: str = ""
    """Label with the job's uid."""
    owner_group: str = ""
    """API group of the job; an owner of the pod in that group is the job itself."""

    def find(self, labels: PodLabels, owner: PodOwner | None) -> tuple[str, str] | None:
        name = labels.get(self.label)
        if not name:
            return None
        if owner is not None and self.owner_group and owner.group == self.owner_group:
            return name, owner.uid
        return name, labels.get(self.uid_label, "") if self.uid_label else ""


@dataclass(frozen=True, slots=True)
class ByOwner:
    """The job is the pod's owner, or the object that made the owner, whose name begins the owner's name."""

    what: str
    kind: str = ""
    """Kind of the owner; "" is any."""
    hash_labels: tuple[str, ...] = ()
    """Labels with the end of the owner's name, which is not the job's."""

    def find(self, labels: PodLabels, owner: PodOwner | None) -> tuple[str, str] | None:
        if owner is None or self.kind not in ("", owner.kind) or owner.kind == "Node":
            return None
        for label in self.hash_labels:
            end = "-" + labels.get(label, "")
            if len(end) > 1 and owner.name.endswith(end):
                return owner.name.removesuffix(end), ""  # its uid changes with each rollout
        return None if self.hash_labels else (owner.name, owner.uid)


Rule = ByLabel | ByOwner

RULES: tuple[Rule, ...] = (
    ByLabel(
        "JobSet, and a TrainJob of Kubeflow Trainer",
        "jobset.sigs.k8s.io/jobset-name",
        uid_label="jobset.sigs.k8s.io/jobset-uid",
    ),
    ByLabel("LeaderWorkerSet", "leaderworkerset.sigs.k8s.io/name"),
    ByLabel(
        "PyTorchJob, MPIJob, TFJob and the others of Kubeflow",
        "training.kubeflow.org/job-name",
        owner_group="kubeflow.org",
    ),
    ByLabel("RayCluster, also of a RayJob or RayService", "ray.io/cluster", owner_group="ray.io"),
    ByLabel("Volcano Job", "volcano.sh/job-name", owner_group="batch.volcano.sh"),
    ByLabel("SparkApplication", "sparkoperator.k8s.io/app-name"),
    ByLabel("KServe InferenceService", "serving.kserve.io/inferenceservice"),
    ByLabel("SkyPilot cluster", "skypilot-cluster-name"),
    ByOwner(
        "Deployment, Rollout",
        kind="ReplicaSet",
        hash_labels=("pod-template-hash", "rollouts-pod-template-hash"),
    ),
    ByOwner("Job, StatefulSet, DaemonSet, and any other owner"),
    ByLabel("Kueue group of plain pods", "kueue.x-k8s.io/pod-group-name"),
)
"""The first rule that fits a pod names its job; a pod that no rule fits is a job by itself."""

ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"
"""JobSet's label of a pod: it makes all pods of the job anew at each attempt."""

QUEUES = (
    "kueue.x-k8s.io/queue-name",
    "kueue.x-k8s.io/local-queue-name",
    "volcano.sh/queue-name",
    "scheduling.volcano.sh/queue-name",
    "kai.scheduler/queue",
    "yunikorn.apache.org/queue",
)
"""Labels or annotations with the pod's queue; the first that exists counts."""


def read(document: object, user_label: str = "", account_label: str = "") -> Workload:
    """The job of a pod, from the API server's description. Raises ValueError for a document that is not a pod."""
    metadata = _mapping(document, "metadata")
    labels = _words(metadata, "labels")
    texts = {**_words(metadata, "annotations"), **labels}
    status = _mapping(document, "status")
    owner = _owner(metadata)
    jobs = (rule.find(labels, owner) for rule in RULES)
    itself = _word(metadata.get("name")), _word(metadata.get("uid"))
    name, uid = next((job for job in jobs if job is not None), itself)
    if not name:
        raise ValueError("a pod without a name")
    if not all(is_sane(word) for word in (name, uid)):
        raise ValueError("a pod of a job with an impossible name")
    queue = next((texts[key] for key in QUEUES if key in texts), "")
    words = [queue, texts.get(user_label, ""), texts.get(account_label, "")]
    sane = [word if is_sane(word) else "" for word in words]
    has_ended = status.get("phase") in ("Succeeded", "Failed")
    return Workload(
        name=name,
        uid=uid,
        queue=sane[0],
        user=sane[1],
        account=sane[2],
        started=_unix(status.get("startTime")),
        over=has_ended,
        pending=status.get("phase") == "Pending",
        first_starts=_first_starts(status),
        attempt=_attempt(labels),
        restarts=_restarts(status),
        finished=_finished(status) if has_ended else None,
        addresses=_addresses(document, status),
        pod_uid=itself[1] if is_sane(itself[1]) else "",
        rejected=sum(word != sane_word for word, sane_word in zip(words, sane, strict=True)),
    )


def is_sane(text: str) -> bool:
    """Whether a text may become the value of a metric's label."""
    return len(text) <= LONGEST_TEXT and text.isprintable()


def _owner(metadata: Mapping[str, object]) -> PodOwner | None:
    for reference in _listed(metadata, "ownerReferences"):
        words = [_word(reference.get(key)) for key in ("apiVersion", "kind", "name", "uid")]
        if reference.get("controller") is True and words[2]:
            return PodOwner(words[0].rpartition("/")[0], *words[1:])
    return None


def _first_starts(status: Mapping[str, object]) -> dict[str, float]:
    """When the containers in the pod's status first started; the later start of a restarted container does not
    count."""
    starts: dict[str, float] = {}
    for key in ("containerStatuses", "initContainerStatuses"):
        for container in _listed(status, key):
            states = [_inside(container, each) for each in ("state", "lastState")]
            times = _times([each for state in states for each in state.values()], "startedAt")
            if times:
                starts[_word(container.get("name"))] = min(times)
    return starts


def _attempt(labels: PodLabels) -> int | None:
    attempt = labels.get(ATTEMPT, "")
    return int(attempt) if attempt.isascii() and attempt.isdecimal() and len(attempt) < 6 else None


def _restarts(status: Mapping[str, object]) -> dict[str, int]:
    counts = ((each, each.get("restartCount")) for each in _listed(status, "containerStatuses"))
    return {
        _word(container.get("name")): count
        for container, count in counts
        if type(count) is int and 0 <= count < 1 << 32
    }


def _finished(status: Mapping[str, object]) -> float | None:
    """When the last container of a pod that is over ended."""
    states = [_inside(container, "state") for container in _listed(status, "containerStatuses")]
    return max(_times([state.get("terminated") for state in states], "finishedAt"), default=None)


def _times(states: Iterable[object], key: str) -> list[float]:
    """The times that states of a container have under a key."""
    times = (_unix(state.get(key)) for state in states if isinstance(state, dict))
    return [time for time in times if time is not None]


def _addresses(document: object, status: Mapping[str, object]) -> tuple[str, ...]:
    """Those of the pod alone: every program of a node has the addresses of a pod with `hostNetwork`."""
    if _inside(document, "spec").get("hostNetwork"):
        return ()
    addresses = [_word(each.get("ip")) for each in _listed(status, "podIPs")]
    return tuple(str(parsed_address(ip)) for ip in addresses if is_address(ip))


def _mapping(document: object, key: str) -> Mapping[str, object]:
    value = document.get(key, {}) if isinstance(document, dict) else None
    if not isinstance(value, dict):
        raise ValueError(f"no pod: {key} is missing")
    return value


def _inside(document: object, key: str) -> Mapping[str, object]:
    """A mapping in another; empty where there is none."""
    value = document.get(key) if isinstance(document, dict) else None
    return value if isinstance(value, dict) else {}


def _listed(document: Mapping[str, object], key: str) -> list[dict[str, object]]:
    """The mappings in a list; none where there is no list."""
    listed = document.get(key)
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


def _words(metadata: Mapping[str, object], key: str) -> dict[str, str]:
    pairs = _inside(metadata, key).items()
    return {name: word for name, word in pairs if isinstance(word, str)}


def _word(value: object) -> str:
    return value if isinstance(value, str) else ""


def _unix(value: object) -> float | None:
    try:
        return datetime.fromisoformat(_word(value).replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError):
        return None
