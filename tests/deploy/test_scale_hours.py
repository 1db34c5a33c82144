"""Rules of hours and of days record the same in every configuration of deploy/scale, over one day of data."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.deploy.monitoring import VictoriaMetrics, victoria_metrics
from tests.deploy.promtool import ROOT, RULES, groups, read_yaml
from tests.deploy.test_scale import Answer, Labels, shard_of
from tests.helpers import steady_fleet
from tests.helpers.agent import until
from tests.helpers.prometheus_server import Prometheus
from tests.helpers.steady_fleet import CLUSTERS, HOURS, JOBS, NODES
from tests.helpers.stored_fleet import (
    BEGIN,
    HOUR,
    empty_victoria,
    layers,
    put_into,
    read_in,
    record,
    stored,
)

SCALE = ROOT / "deploy" / "scale"
WANTED = {
    rule["record"]
    for path in RULES
    for group in groups(path)
    if group["interval"] != "1m"
    for rule in group["rules"]
} - {
    *("job:tokens:increase1h", "job:engines:max1h", "job:idle_engine_joules:increase1h"),
    *("job:memory_gpu_hours:increase1h", "job:memory_busy_gpu_hours:increase1h"),
    *("job:ofu_before_drop:ratio", "job_gpu:ofu_gpu_sm_clock_before_loss:hertz"),
}
"""All that reads an hour or a day, or is recorded once an hour, but what is of jobs that serve or become slow."""
TEXT = " ".join(sorted(WANTED))
LOOK_BACK = f"--query.lookback-delta={HOURS}h"
"""For a server that is asked now for what it recorded up to the last whole hour."""

pytestmark = [pytest.mark.slow, pytest.mark.prometheus, pytest.mark.xdist_group("scale-hours")]


@pytest.fixture(scope="module")
def end() -> float:
    """The last whole hour: databases keep what is not old."""
    return time.time() // HOUR * HOUR


def begin_of(end: float) -> float:
    return end - HOURS * HOUR


def fill(folder: Path, end: float, nodes: Iterable[str], **how: bool) -> None:
    """Read the pages of some nodes into `folder`/data."""
    folder.mkdir(exist_ok=True)
    read_in(folder, steady_fleet.pages(begin_of(end), nodes, **how))


def answer_of(found: Iterable[Mapping[str, Any]]) -> Answer:
    return {
        frozenset(one["metric"].items()): float(one["value"][1])
        for one in found
        if one["metric"]["__name__"] in WANTED
    }


def recorded_at(server: Prometheus, at: float) -> Answer:
    return answer_of(server.query('{__name__=~".+:.+"}', at))


@pytest.fixture(scope="module")
def everything(end: float) -> str:
    """The pages of all nodes."""
    return steady_fleet.pages(begin_of(end))


@pytest.fixture(scope="module")
def one_prometheus(everything: str, end: float, tmp_path_factory: pytest.TempPathFactory) -> Answer:
    """What a Prometheus has that scraped all nodes of all clusters itself."""
    folder = tmp_path_factory.mktemp("one")
    read_in(folder, everything)
    record(folder, begin_of(end), end, TEXT)
    with stored(folder) as server:
        return recorded_at(server, end)


def value(answer: Answer, name: str, **labels: str) -> float:
    wanted = {"__name__": name, **labels}.items()
    (found,) = [number for series, number in answer.items() if wanted <= dict(series).items()]
    return found


def names(answer: Answer) -> set[str]:
    return {dict(labels)["__name__"] for labels in answer}


def check_same(found: Answer, wanted: Answer) -> None:
    """The same series, and the same values but for the order of sums."""
    assert found.keys() == wanted.keys()
    for labels, number in wanted.items():
        assert found[labels] == pytest.approx(number, rel=1e-9, abs=1e-12), dict(labels)


def test_one_prometheus_records_every_rule_and_what_is_true(one_prometheus: Answer) -> None:
    assert names(one_prometheus) == WANTED
    for job in JOBS:
        which = {"job_id": job.job_id, "cluster": job.cluster}
        gpus = steady_fleet.GPUS * len(job.nodes)
        held = value(one_prometheus, "job:held_gpu_hours:increase1h", **which)
        assert held == pytest.approx(gpus, rel=1e-9)
        of_the_day = value(one_prometheus, "job:ofu:ratio_sum1d", **which)
        assert of_the_day == pytest.approx(job.ofu, rel=1e-9)
        utilized = value(one_prometheus, "job:utilized_gpu_hours:increase1h", **which)
        assert utilized / gpus == pytest.approx(job.ofu, rel=1e-9)
        clock = "job_gpu:ofu_gpu_sm_clock_hertz:avg1d"
        at_n = value(one_prometheus, clock, instance=job.nodes[0], gpu="1")
        assert at_n == pytest.approx(steady_fleet.clock_hz(job.nodes[0], 1), rel=1e-9)
    idle = value(one_prometheus, "job:idle_gpus:count1h", cluster="east", job_id="8")
    assert idle == steady_fleet.GPUS


def test_three_shards_and_the_prometheus_above_them(
    one_prometheus: Answer, end: float, tmp_path: Path
) -> None:
    """Rules of the one above read each node's series from the shard that scraped it."""
    config = read_yaml(SCALE / "sharded" / "global.yaml")
    with ExitStack() as stack:
        for number in range(3):
            own = [node for node in NODES if shard_of(node, 3) == number]
            assert 0 < len(own) < len(NODES)
            fill(tmp_path / f"shard{number}", end, own)
            labels = {"external_labels": {"shard": str(number)}}
            shard = stack.enter_context(
                stored(tmp_path / f"shard{number}", (), **{"global": labels})
            )
            text = json.dumps(config["remote_read"])
            config["remote_read"] = json.loads(
                text.replace(f"//shard{number}:9090", f"//{address(shard)}")
            )
        above = tmp_path / "above"
        above.mkdir()

        def server(folder: Path) -> Any:
            return stored(folder, remote_read=config["remote_read"])

        record(above, begin_of(end), end, TEXT, server)
        with stored(above) as alone:
            check_same(recorded_at(alone, end), one_prometheus)


def address(server: Prometheus) -> str:
    return f"127.0.0.1:{server.port}"


def test_vmalert_over_victoriametrics(
    one_prometheus: Answer, everything: str, end: float, tmp_path: Path
) -> None:
    """The same rules, replayed by vmalert over the same samples."""
    with victoria_metrics(tmp_path / "vm", []) as data:
        url = f"{data.url}/api/v1/import/prometheus"
        urllib.request.urlopen(url, everything.encode(), timeout=120).close()
        flush(data)
        until(lambda: data.query(f"ofu_gpu_info @ {end:.0f}"))
        for layer in layers(TEXT):
            replay(data, layer, (begin_of(end), end), tmp_path)
            flush(data)

        def recorded() -> Answer:
            return answer_of(data.query(f'{{__name__=~".+:.+"}} @ {end:.0f}'))

        until(lambda: len(recorded()) >= len(one_prometheus))
        check_same(recorded(), one_prometheus)


def test_an_hour_that_a_vmalert_recorded_twice_counts_once(tmp_path: Path) -> None:
    compose = read_yaml(SCALE / "remote-write" / "compose.yaml")
    words = compose["services"]["victoria-metrics"]["command"]
    flags = [word for word in words if word.startswith("-dedup")]
    with empty_victoria(tmp_path, *flags) as data:
        for _ in range(2):
            put_into(data, [f"x 8 {1000 * BEGIN:.0f}"])
        until(lambda: data.query(f"x @ {BEGIN + 60:.0f}"))
        (hours,) = data.query(f"sum_over_time(x[1h] @ {BEGIN + 60:.0f})")
    assert hours["value"][1] == "8"


def flush(data: VictoriaMetrics) -> None:
    urllib.request.urlopen(f"{data.url}/internal/force_flush", timeout=300).close()


def replay(
    data: VictoriaMetrics,
    layer: list[tuple[dict[str, str], float]],
    times: tuple[float, float],
    folder: Path,
) -> None:
    """Evaluate rules that do not build on each other over a time, by vmalert."""
    found = [
        {
            "name": f"{interval:.0f}s",
            "interval": f"{interval:.0f}s",
            "rules": [rule for rule, other in layer if other == interval],
        }
        for interval in sorted({interval for _, interval in layer})
    ]
    file = folder / "layer.yaml"
    file.write_text(json.dumps({"groups": found}))
    first, last = (
        datetime.fromtimestamp(unix, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ") for unix in times
    )
    subprocess.run(
        [
            "vmalert",
            f"-rule={file}",
            f"-datasource.url={data.url}",
            f"-remoteWrite.url={data.url}",
            f"-replay.timeFrom={first}",
            f"-replay.timeTo={last}",
            "-replay.rulesDelay=0s",
            "-datasource.queryStep=0",  # each rule at its own interval; five minutes are for asking at one time
            "-replay.disableProgressBar",
        ],
        check=True,
        capture_output=True,
        timeout=300,
    )


def test_federation_of_what_each_cluster_records(
    one_prometheus: Answer, end: float, tmp_path: Path
) -> None:
    """Each cluster's rules see no label `cluster`; it is there in what the one above takes."""
    config = read_yaml(SCALE / "federation" / "global.yaml")
    (job,) = config["scrape_configs"]
    asked = urllib.parse.urlencode(job["params"], doseq=True)
    found: dict[Labels, float] = {}
    for cluster in CLUSTERS:
        folder = tmp_path / cluster
        own = [node for node, its in NODES.items() if its == cluster]
        fill(folder, end, own, with_cluster=False)
        record(folder, begin_of(end), end, TEXT)
        labels = {"external_labels": {"cluster": cluster}}
        with stored(folder, (LOOK_BACK,), **{"global": labels}) as server:
            url = f"{server.url}{job['metrics_path']}?{asked}"
            with urllib.request.urlopen(url, timeout=300) as answer:
                text = answer.read().decode()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name in WANTED:
                    shown = {name: label for name, label in sample.labels.items() if label}
                    found[frozenset({"__name__": sample.name, **shown}.items())] = sample.value
    above = {
        labels: number
        for labels, number in one_prometheus.items()
        if not dict(labels)["__name__"].startswith("job_gpu:")
    }
    check_same(found, above)
