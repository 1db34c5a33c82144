"""Every configuration in deploy/scale answers as one Prometheus that scrapes all nodes itself."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ofu_exporter.values.job import Job
from tests.deploy.promtool import ROOT, RULES, groups, read_yaml
from tests.helpers.agent import until
from tests.helpers.early import Early
from tests.helpers.fleet_pages import Placed, fleet
from tests.helpers.programs import has_flag
from tests.helpers.prometheus_server import agent_flag, answers, free_port, promql
from tests.helpers.quick_rules import quick_rules

SCALE = ROOT / "deploy" / "scale"
LLAMA, MIXTRAL = Job("slurm", "7", "llama", "ada", "physics"), Job("slurm", "8", "moe", "bob")
HONEST, WRONG = (LLAMA, 0.5, 0.38), (MIXTRAL, 0.3, 0.7)
NODES: tuple[Placed | None, ...] = (HONEST, HONEST, HONEST, WRONG, WRONG, None)
"""Two jobs on several nodes each, for shards to have parts of, the first in both clusters; and a node that is idle."""
CLUSTERS = {"east": slice(2), "west": slice(2, None)}
WAIT = 240.0
"""Rates of 15 minutes are of 30 s here, and reports count a minute late."""
LATE = 15.0
"""Seconds after which everybody has recorded."""
Labels = frozenset[tuple[str, str]]
Answer = dict[Labels, float]

pytestmark = [pytest.mark.slow, pytest.mark.prometheus]


class Store:
    """Something that answers queries as Prometheus does, in a process of its own."""

    def __init__(self, command: Sequence[str], port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until(self._answers)

    def _answers(self) -> bool:
        assert self._process.poll() is None, self._process.args
        return answers(f"{self.url}/-/ready") or answers(f"{self.url}/health")

    def query(self, expression: str, at: float) -> list[Any]:
        """The series of an answer."""
        return promql(self.url, expression, time=at)

    def recorded(self, at: float) -> Answer:
        """Everything that rules recorded, at a time."""
        return {
            frozenset(one["metric"].items()): float(one["value"][1])
            for one in self.query('{__name__=~".+:.+"}', at)
        }

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(30)


def quickened(config: dict[str, Any], addresses: dict[str, str], rules: list[Path]) -> str:
    """A configuration as it is shipped, on the test's addresses, every two seconds, with quick rules."""
    config = json.loads(json.dumps(config))
    pace = {"scrape_interval": "2s", "evaluation_interval": "2s"}
    config["global"] = {**config.get("global", {}), **pace}
    config.pop("alerting", None)
    for receiver in config.get("remote_write", []):
        # Batches wait for up to 5 s by default, which are minutes of these rules.
        receiver["queue_config"] = {"batch_send_deadline": "500ms"}
    if "rule_files" in config:
        config["rule_files"] = list(map(str, rules))
    text = json.dumps(config)
    for name, address in addresses.items():
        text = text.replace(json.dumps(name), json.dumps(address)).replace(
            f"//{name}/", f"//{address}/"
        )
    return text


class Site:
    """The processes of a test, which end with it."""

    def __init__(self, folder: Path, nodes: list[str], rules: list[Path]) -> None:
        self.folder = folder
        self.nodes = nodes
        self.rules = rules
        self.stack = contextlib.ExitStack()

    def prometheus(
        self,
        config: dict[str, Any],
        clusters: Iterable[str] = CLUSTERS,
        addresses: dict[str, str] | None = None,
        flags: Sequence[str] = (),
    ) -> Store:
        """A Prometheus over these clusters; the label `cluster` that a configuration gives its nodes is theirs."""
        port = free_port()
        folder = self.folder / str(port)
        folder.mkdir()
        config = json.loads(json.dumps(config))
        for job in config.get("scrape_configs", []):
            (group,) = job["static_configs"]
            if group["targets"][0] == "node1:9846":
                job["static_configs"] = [
                    {
                        "targets": self.nodes[CLUSTERS[name]],
                        "labels": {
                            label: name if label == "cluster" else value
                            for label, value in group.get("labels", {}).items()
                        },
                    }
                    for name in clusters
                ]
        path = folder / "prometheus.yml"
        path.write_text(quickened(config, addresses or {}, self.rules))
        storage = "agent" if flags else "tsdb"
        return self.start(
            port,
            "prometheus",
            f"--config.file={path}",
            f"--storage.{storage}.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            *flags,
        )

    def start(self, port: int, *command: str) -> Store:
        store = Store(command, port)
        self.stack.callback(store.stop)
        return store


@pytest.fixture(scope="module")
def new_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Site]]:
    """Makes sites of one fleet, which all evaluate the same files of rules: at the same instants."""
    rules = quick_rules(tmp_path_factory.mktemp("rules"))
    with fleet(NODES) as nodes:
        yield lambda: Site(tmp_path_factory.mktemp("site"), nodes, rules)


@pytest.fixture(scope="module")
def sites(new_site: Callable[[], Site]) -> Iterator[Early]:
    """All side by side: each takes half a minute."""
    begins = (remote_write, sharded, one_prometheus, federation)
    with contextlib.closing(Early(begins, new_site)) as begun:
        yield begun


@contextlib.contextmanager
def one_prometheus(site: Site) -> Iterator[Store]:
    """What the others are held against: the example that is no part of deploy/scale."""
    with site.stack:
        yield site.prometheus(read_yaml(ROOT / "deploy" / "prometheus" / "prometheus.yaml"))


@pytest.fixture(scope="module")
def reference(sites: Early) -> Iterator[Store]:
    with sites.of(one_prometheus) as one:
        yield one


EXPECTED = {
    rule["record"]
    for path in RULES
    for group in groups(path)
    if group["interval"] == "1m"
    for rule in group["rules"]
} - {
    "cluster:ofu_gpu_unavailable:sum",
    "job:engine_idle:ratio2h",
    "cluster:ofu_exporter_rejected_reports:rate15m",
    "partition:ofu:ratio_rate5m",
    "partition:mfu:ratio_rate15m",
    "partition:ofu_compared:ratio_rate15m",
    "namespace:ofu:ratio_rate5m",
    "namespace:mfu:ratio_rate15m",
    "namespace:ofu_compared:ratio_rate15m",
    "job:ofu_job_finding:ratio",
    "job:done_again_gpu_seconds:rate5m",
    "job:ofu_job_tokens:rate5m",
    "job:joules_per_token:ratio_rate5m",
    "job:tokens_per_gpu_second:ratio_rate5m",
    "job:idle_engine_watts:rate5m",
    "job:memory_busy:ratio_rate5m",
    "job:lost_progress_paused_gpus:rate1m",
    # A minute of quick rules is two seconds, in which agents measure once or not at all.
    "job:lost_progress_gpus:rate1m",
    "job:lost_progress_utilization:rate1m",
    "job:starting_gpus:rate1m",
    "job:standing_gpus:sum1m",
    "job:busy_gpus:sum1m",
    "job:idle_gpus:sum1m",
    "job_gpu:engine_idle:ratio1m",
}
"""What the rules record once a minute of this fleet: it measures all GPUs but not their memory, and its jobs have no
partition or namespace, state no step, serve nothing and are not traced."""


def names(answer: Answer) -> set[str]:
    return {dict(labels)["__name__"] for labels in answer}


def agree(labels: Labels, first: float, second: float) -> bool:
    """Two scrapers see the counters at instants of their own: a rate of some seconds differs by one of these.

    Ratios are of two such rates, and differ by little; a job without one of its two nodes would differ by half.
    """
    is_rate = re.search(r"seconds:rate|reports:rate", dict(labels)["__name__"])
    return first == pytest.approx(second, rel=0.2 if is_rate else 0.03, abs=1e-9)


def until_the_same(one: Store, other: Store, wanted: set[str]) -> None:
    """Both have recorded all that is wanted, with the same labels and the same values."""
    said = ""

    def same() -> bool:
        nonlocal said
        at = time.time() - LATE
        first, second = (
            {
                labels: value
                for labels, value in store.recorded(at).items()
                if dict(labels)["__name__"] in wanted
            }
            for store in (one, other)
        )
        missing = wanted - names(first), wanted - names(second)
        differing = [
            (dict(labels), first.get(labels), second.get(labels))
            for labels in first.keys() | second.keys()
            if labels not in first
            or labels not in second
            or not agree(labels, first[labels], second[labels])
        ]
        said = f"missing: {missing}, {len(differing)} differ: {differing[:4]}"
        return not any(missing) and not differing

    try:
        until(same, seconds=WAIT)
    except AssertionError:
        raise AssertionError(said) from None


CONFIGURATIONS = sorted(path for path in SCALE.glob("*/*.yaml") if path.stem != "compose")


@pytest.mark.parametrize("path", CONFIGURATIONS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_prometheus_takes_it_as_it_is_shipped(path: Path) -> None:
    agent = ["--agent"] if path.parent.name == "remote-write" else []
    command = ["promtool", "check", "config", *agent, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    if "rule_files" in read_yaml(path):
        for rules in RULES:
            assert f"/{rules.name}\n" in done.stdout


def shard_of(address: str, shards: int) -> int:
    """Where Prometheus's `hashmod` sends a target (model/relabel/relabel.go): the last 8 bytes of its MD5."""
    digest = hashlib.md5(address.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[8:], "big") % shards


@contextlib.contextmanager
def sharded(site: Site) -> Iterator[tuple[Site, Store, list[Store]]]:
    config = read_yaml(SCALE / "sharded" / "shard.yaml")
    with site.stack:
        shards = [
            site.prometheus(json.loads(json.dumps(config).replace('"0"', f'"{number}"')))
            for number in range(3)
        ]
        addresses = {
            f"shard{number}:9090": f"127.0.0.1:{shard.port}" for number, shard in enumerate(shards)
        }
        above = site.prometheus(read_yaml(SCALE / "sharded" / "global.yaml"), addresses=addresses)
        yield site, above, shards


def test_three_shards_and_the_prometheus_above_them(sites: Early, reference: Store) -> None:
    """Each shard has some of the nodes, and the one above has what the rules make of all."""
    with sites.of(sharded) as (site, above, shards):
        until_the_same(reference, above, EXPECTED)
        for number, shard in enumerate(shards):
            scraped = {one["metric"]["instance"] for one in shard.query("up", time.time())}
            assert scraped == {node for node in site.nodes if shard_of(node, 3) == number}


@contextlib.contextmanager
def federation(site: Site) -> Iterator[Store]:
    config = read_yaml(SCALE / "federation" / "cluster.yaml")
    with site.stack:
        addresses = {}
        for name in CLUSTERS:
            labelled = {**config["global"], "external_labels": {"cluster": name}}
            one = site.prometheus({**config, "global": labelled}, [name])
            addresses[f"prometheus-{name}:9090"] = f"127.0.0.1:{one.port}"
        yield site.prometheus(read_yaml(SCALE / "federation" / "global.yaml"), addresses=addresses)


def test_federation_of_what_two_clusters_record(sites: Early, reference: Store) -> None:
    """The same job id in both clusters is two jobs above them."""
    kept = {name for name in EXPECTED if name.partition(":")[0] not in ("gpu", "job_gpu", "node")}
    with sites.of(federation) as above:
        until_the_same(reference, above, kept - {"fleet:ofu_target:ratio"})
        recorded = above.recorded(time.time())
        levels = {name.partition(":")[0] for name in names(recorded)}
        assert not levels & {"gpu", "job_gpu", "node"}
        owners = {dict(labels)["cluster"] for labels in recorded if ("job_id", "7") in labels}
        assert owners == {"east", "west"}


@contextlib.contextmanager
def remote_write(site: Site) -> Iterator[Store]:
    services = read_yaml(SCALE / "remote-write" / "compose.yaml")["services"]
    storage, alert, notified = free_port(), free_port(), free_port()
    rest = {
        "/data": str(site.folder / "vm"),
        ":8428": f":{storage}",
        ":8880": f":{alert}",
        "victoria-metrics": "127.0.0.1",
        "alertmanager:9093": f"127.0.0.1:{notified}",
        "/rules": str(site.rules[0].parent),
    }

    def command(name: str, *more: str) -> list[str]:
        """A command of the compose file, with this test's places; it has no alerts."""
        words = [word for word in services[name]["command"] if not word.startswith("-rule=/alerts")]
        for old, new in rest.items():
            words = [word.replace(old, new) for word in words]
        return [name, *words, *more]

    with site.stack:
        stored = site.start(storage, *command("victoria-metrics", "-search.latencyOffset=1s"))
        site.prometheus(
            read_yaml(SCALE / "remote-write" / "prometheus.yaml"),
            addresses={"victoria-metrics:8428": f"127.0.0.1:{storage}"},
            flags=[agent_flag()],
        )
        deletion = f"{stored.url}/api/v1/admin/tsdb/delete_series"
        # With it a vmalert evaluates as of 30 s ago if it is told nothing else; here, once all has been sent.
        delay = ["-rule.evalDelay=10s"] if has_flag("vmalert", "-rule.evalDelay") else []
        site.start(alert, *command("vmalert", "-remoteWrite.flushInterval=1s", *delay))
        for _ in range(60):
            # It looks for new series every ten seconds, or once one is deleted; rules read what rules record.
            urllib.request.urlopen(f"{deletion}?match[]=up", timeout=60).close()
            if names(stored.recorded(time.time())) >= EXPECTED:
                break
            time.sleep(1.0)
        yield stored


def test_agent_mode_into_victoriametrics_with_vmalert(sites: Early, reference: Store) -> None:
    """What one process keeps, another one evaluates: the rules are the same files."""
    with sites.of(remote_write) as stored:
        until_the_same(reference, stored, EXPECTED)
