"""Every row of the GPU table on its own figures, and every way in which a device may be taken for another."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.errors import ConfigError
from ofu_exporter.hardware.gpu_models import (
    PRECISIONS,
    ROWS,
    GpuModel,
    custom_row,
    estimate,
    find_row,
    markdown,
    normalise,
    rate,
)
from ofu_exporter.values.gpu import Gpu, Rating
from tests.helpers.every import every

REPO = Path(__file__).parents[2]

BY_KEY = {row.key: row for row in ROWS}
NAMED = [(row, name) for row in ROWS for name in row.names]
IDENTIFIED = [(row, device_id) for row in ROWS for device_id in row.pci_device_ids]
SHARED_IDS = {"25b6", "1e30", "1e78"}
KNOWN_NAMES = {normalise(name) for _, name in NAMED}
MIB = 2**20


def device(
    name: str = "",
    pci_device_id: str = "",
    sm_count: int | None = None,
    compute_capability: tuple[int, int] | None = None,
    mib: int | None = None,
    max_sm_clock_hz: float | None = None,
    instance: str = "",
) -> Gpu:
    return Gpu(
        index="0",
        uuid="GPU-0",
        instance=instance,
        name=name,
        pci_device_id=pci_device_id,
        sm_count=sm_count,
        compute_capability=compute_capability,
        max_sm_clock_hz=max_sm_clock_hz,
        memory_bytes=None if mib is None else mib * MIB,
    )


def key_of(gpu: Gpu) -> str | None:
    row = find_row(gpu)
    return None if row is None else row.key


def rated(gpu: Gpu, *extra: GpuModel) -> Rating:
    rating = rate(gpu, extra)
    assert rating is not None
    return rating


# Rows.


@every(ROWS, lambda row: row.key)
def test_published_peaks_follow_from_the_rest_of_the_row(row: GpuModel) -> None:
    for precision, published in row.published_peak_flops.items():
        assert precision in PRECISIONS
        clock_hz = row.clock_hz(precision)
        flops = row.chip.flops_per_cycle_per_sm.get(precision)
        if precision in row.disputed or flops is None or clock_hz is None:
            continue
        assert row.sm_count is not None
        assert row.sm_count * flops * clock_hz == pytest.approx(published, rel=0.015)
        assert row.peak_flops(precision) == row.sm_count * flops * clock_hz


@every(ROWS, lambda row: row.key)
def test_a_row_is_complete_and_in_base_units(row: GpuModel) -> None:
    assert row.key == row.key.strip() != ""
    assert row.names or row.pci_device_ids
    assert row.source
    assert row.confidence in {"high", "medium", "low"}
    assert all(re.fullmatch("[0-9a-f]{4}", i) for i in row.pci_device_ids)
    assert set(row.disputed) <= set(PRECISIONS)
    assert all(row.disputed.values())
    assert set(row.chip.flops_per_cycle_per_sm) <= set(PRECISIONS)
    for clock_hz in (row.tensor_clock_hz, row.fp64_clock_hz, row.max_sm_clock_hz):
        assert clock_hz is None or 1e9 < clock_hz < 4e9
    assert all(1e12 <= peak < 1e17 for peak in row.published_peak_flops.values())
    assert (row.sm_count is None) == (row.tensor_clock_hz is None)


@every(ROWS, lambda row: row.key)
def test_a_tensor_clock_is_never_above_the_maximum_sm_clock(row: GpuModel) -> None:
    if row.max_sm_clock_hz is not None and row.tensor_clock_hz is not None:
        assert row.tensor_clock_hz <= row.max_sm_clock_hz


def test_no_two_rows_claim_one_key_or_one_name() -> None:
    assert len(BY_KEY) == len(ROWS)
    owner: dict[str, str] = {}
    for row, name in NAMED:
        assert owner.setdefault(normalise(name), row.key) == row.key, name
    assert len(owner) == len(NAMED)


def test_fp16_runs_at_the_rate_of_bf16() -> None:
    for row in ROWS:
        rates = row.chip.flops_per_cycle_per_sm
        assert "bf16" not in rates or rates["fp16"] == rates["bf16"]


def test_h100_sxm() -> None:
    rating = rated(device("NVIDIA H100 80GB HBM3"))
    assert rating.tensor_clock_hz == {"low_precision": 1830e6, "fp64": 1980e6}
    peaks = rating.peak_flops
    assert peaks["bf16"] == pytest.approx(989.4e12, rel=5e-4)
    assert peaks["fp16"] == peaks["bf16"]
    assert peaks["fp8"] == 2 * peaks["bf16"]
    assert peaks["tf32"] == peaks["bf16"] / 2
    assert peaks["fp64"] == pytest.approx(67e12, rel=0.002)
    assert (rating.origin, rating.model) == ("published", "H100-SXM5-80GB")


def test_a_capped_part_keeps_its_published_peaks() -> None:
    rating = rated(device("NVIDIA H20"))
    assert rating.peak_flops == {
        "fp64": 1e12,
        "tf32": 74e12,
        "bf16": 148e12,
        "fp16": 148e12,
        "fp8": 296e12,
        "int8": 296e12,
    }
    assert rated(device("NVIDIA H800")).peak_flops["fp64"] == 1e12


# Recognition.


@every(NAMED, lambda _, name: name)
def test_a_name_resolves_to_its_row(row: GpuModel, name: str) -> None:
    assert find_row(device(name)) is row
    assert find_row(device(name.replace(" ", "-"))) is row
    assert find_row(device(f"  {name.upper()} ")) is row
    assert find_row(device(f"{name} MIG 1g.10gb")) is row
    assert find_row(device(f"{name} MIG 1c.2g.20gb+me")) is row
    assert find_row(device(name, sm_count=row.sm_count)) is row


@every(IDENTIFIED, lambda _, device_id: device_id)
def test_a_pci_id_resolves_to_its_row(row: GpuModel, device_id: str) -> None:
    name = row.names[0] if row.names else ""
    assert find_row(device(name, device_id)) is row
    assert find_row(device(name, device_id.upper())) is row
    gpu = device("", device_id, row.sm_count, row.chip.compute_capability)
    if device_id not in SHARED_IDS:
        assert find_row(gpu) is row
    elif device_id == "25b6":
        assert find_row(gpu) is None
    else:  # two boards with one chip and one rating
        assert rated(gpu).tensor_clock_hz == rated(device(name)).tensor_clock_hz


def test_only_the_known_pci_ids_are_shared() -> None:
    ids = [device_id for _, device_id in IDENTIFIED]
    assert {device_id for device_id in ids if ids.count(device_id) > 1} == SHARED_IDS


def test_the_name_decides_between_two_models_with_one_pci_id() -> None:
    assert key_of(device("NVIDIA A16", "25b6")) == "A16"
    assert key_of(device("NVIDIA A2", "25b6")) == "A2"
    assert key_of(device("NVIDIA A99", "25b6", 10, (8, 6))) is None


def test_a_pci_id_is_believed_over_a_name() -> None:
    assert key_of(device("NVIDIA L20", "2335")) == "H200-SXM"
    assert key_of(device("NVIDIA L20X", "2335")) == "H200-SXM"
    assert key_of(device("anything", "2330")) == "H100-SXM5-80GB"


def test_an_unknown_pci_id_leaves_it_to_the_name() -> None:
    assert key_of(device("NVIDIA H200", "ffff")) == "H200-SXM"
    assert key_of(device("NVIDIA H300", "ffff")) is None


@every(
    [
        ("NVIDIA A10", "A10"),
        ("NVIDIA A10G", "A10G"),
        ("NVIDIA A100-SXM4-40GB", "A100-SXM4-40GB"),
        ("NVIDIA A100", None),
        ("A10", "A10"),
        ("NVIDIA NVIDIA A10", None),
        ("A100", None),
        ("A100-SXM4-40GB", "A100-SXM4-40GB"),
        ("A100-PCIE-40GB MIG 1g.5gb", "A100-PCIe-40GB"),
        ("GeForce RTX 3090", "RTX-3090"),
        ("RTX A6000", "RTX-A6000"),
        ("NVIDIA Tesla T4", "T4"),
        ("NVIDIA A100-PG509-200", "A100-SXM4-40GB"),
        ("A100-PG509-200", "A100-SXM4-40GB"),
        ("NVIDIA PG509-210", "A100-SXM4-80GB"),
        ("NVIDIA PG506-242", "A100-SXM-64GB"),
        ("NVIDIA A100-PG506-207", "A100-PG506"),
        ("NVIDIA PG506-230", None),
        ("Quadro RTX 6000", "Quadro-RTX-6000"),
        ("NVIDIA RTX 6000", None),
        ("NVIDIA GeForce RTX 3080", "RTX-3080"),
        ("NVIDIA GeForce RTX 3080 Ti", "RTX-3080-Ti"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA L40", "L40"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA L40G", None),
        ("NVIDIA L2", "L2"),
        ("NVIDIA L20", "L20"),
        ("NVIDIA L20X", "H200-as-L20X"),
        ("NVIDIA A2", "A2"),
        ("NVIDIA H20", "H20"),
        ("NVIDIA H20-3e", "H20-3e"),
        ("NVIDIA H200", "H200-SXM"),
        ("NVIDIA H200 NVL", "H200-NVL"),
        ("NVIDIA GH200 480GB", "GH200-96GB"),
        ("NVIDIA GH200", None),
        ("NVIDIA H100", "H100-SXM5-96GB"),
        ("NVIDIA H100 80GB HBM3", "H100-SXM5-80GB"),
        ("NVIDIA-H100-80GB-HBM3", "H100-SXM5-80GB"),
        ("NVIDIA H100 PCIe", "H100-PCIe-80GB"),
        ("NVIDIA H100 NVL", "H100-NVL"),
        ("NVIDIA H100 80GB", None),
        ("NVIDIA B200", "B200"),
        ("NVIDIA GB200", "GB200"),
        ("NVIDIA GB10", "GB10"),
        ("NVIDIA B300", None),
        ("NVIDIA GeForce RTX 4090", "RTX-4090"),
        ("NVIDIA GeForce RTX 4090 D", "RTX-4090-D"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("RTX 4090", None),
        ("", None),
        ("NVIDIA", None),
        (" -_- ", None),
        ("MIG 1g.10gb", None),
        ("NVIDIA A100-SXM4-40GB MIG", None),
    ]
)
def test_a_name_inside_another_never_wins(name: str, key: str | None) -> None:
    assert key_of(device(name)) == key


RELABELLED = device("NVIDIA L20", "", 132, (8, 9), 143771)


@pytest.mark.parametrize("max_sm_clock_hz", [None, 1980e6, 2520e6])
def test_a_relabelled_h200_is_rated_as_an_h200(max_sm_clock_hz: float | None) -> None:
    gpu = replace(RELABELLED, max_sm_clock_hz=max_sm_clock_hz)
    h200 = rated(device("NVIDIA H200"))
    rating = rated(gpu)
    assert rating == replace(h200, model="H200-as-L20X", rated_as="H200-as-L20X")


def test_a_relabelled_card_is_told_apart_by_its_maximum_clock() -> None:
    assert key_of(replace(RELABELLED, max_sm_clock_hz=1785e6)) == "H200-NVL"


def test_a_false_name_without_enough_to_go_on_is_unknown() -> None:
    assert find_row(replace(RELABELLED, memory_bytes=None)) is None
    assert find_row(replace(RELABELLED, memory_bytes=10**9)) is None
    assert find_row(replace(RELABELLED, sm_count=131)) is None
    # 132 SMs with 94 GB are H100 NVL, H800 NVL or an SXM part: three ratings.
    assert find_row(device("NVIDIA L20", "", 132, None, 94 * 1024)) is None


def test_compute_capability_settles_a_false_name_where_it_fits_a_row() -> None:
    # 72 SMs and 24 GB: A10 is 8.6, Quadro RTX 6000 and TITAN RTX are 7.5.
    assert key_of(device("NVIDIA L20", "", 72, (8, 6), 24 * 1024)) == "A10"
    # 108 SMs and 80 GB: every such row is an A100 or an A800, rated alike.
    assert key_of(device("NVIDIA A30", "", 108, (8, 0), 80 * 1024)) == "A100-SXM4-80GB"
    # 142 SMs, 48 GB, 8.9: L40, L40S and RTX 6000 Ada, told apart only by the clock.
    ada = device("NVIDIA L20", "", 142, (8, 9), 48 * 1024)
    assert find_row(ada) is None
    assert key_of(replace(ada, max_sm_clock_hz=2490e6)) == "L40"
    # 80 SMs, 24 GB, 8.6: A10G, and RTX A5500, whose maximum clock is not in the table.
    assert key_of(device("NVIDIA L20", "", 80, (8, 6), 24 * 1024, 1710e6)) == "A10G"


def test_a_small_difference_in_sms_is_another_bin_of_the_model() -> None:
    assert key_of(device("NVIDIA GB200", sm_count=148)) == "GB200"
    assert key_of(device("NVIDIA GB200", sm_count=137)) == "GB200"
    assert key_of(device("NVIDIA GB200", sm_count=136)) is None


# Ratings.


def test_gb200_keeps_its_peak_whatever_sms_it_reports() -> None:
    whole = rated(device("NVIDIA GB200", sm_count=152))
    binned = rated(device("NVIDIA GB200", sm_count=148))
    assert whole.tensor_clock_hz["low_precision"] == 2008e6
    assert binned.tensor_clock_hz["low_precision"] == pytest.approx(2062e6, rel=0.002)
    assert binned.tensor_clock_hz["fp64"] == 2062e6
    assert binned.peak_flops["bf16"] == pytest.approx(2500e12)
    assert binned.peak_flops["fp4"] == pytest.approx(10000e12)


def test_a_disputed_peak_does_not_set_the_clock() -> None:
    whole = rated(device("NVIDIA L40S"))
    binned = rated(device("NVIDIA L40S", sm_count=140))
    assert binned.tensor_clock_hz["low_precision"] == pytest.approx(2520e6 * 142 / 140)
    assert binned.peak_flops["bf16"] == pytest.approx(whole.peak_flops["bf16"])


def test_a_chip_without_bf16_has_the_clock_of_its_fp16_peak() -> None:
    binned = rated(device("Tesla T4", sm_count=38))
    assert binned.tensor_clock_hz["low_precision"] == 65e12 / (38 * 1024)


@pytest.mark.parametrize(
    ("name", "in_turns"),
    [
        ("Tesla T4", True),
        ("NVIDIA L40S", True),
        ("NVIDIA H100 80GB HBM3", False),
        ("NVIDIA B200", False),
        ("NVIDIA X1", False),
    ],
)
def test_cards_before_hopper_count_in_turns(name: str, in_turns: bool) -> None:
    mine = custom_row(name="NVIDIA X1", tensor_clock_hz=2e9)
    assert rated(device(name), mine).counts_in_turns is in_turns


def test_a_capped_part_has_one_clock_whatever_sms_it_reports() -> None:
    assert rated(device("NVIDIA H20", sm_count=76)).tensor_clock_hz["low_precision"] == 1980e6


def test_a_part_of_a_chip_has_the_clock_but_no_peak() -> None:
    rating = rated(device("", "2330", sm_count=66))
    assert rating.tensor_clock_hz["low_precision"] == 1830e6
    assert rating.peak_flops == {}


def test_a_mig_instance_has_the_clocks_but_no_peak() -> None:
    name = "NVIDIA H100 80GB HBM3 MIG 1g.10gb"
    rating = rated(device(name, sm_count=16, mib=9856, instance="7"))
    assert rating.tensor_clock_hz == {"low_precision": 1830e6, "fp64": 1980e6}
    assert rating.peak_flops == {}
    assert rating.model == "H100-SXM5-80GB"


@pytest.mark.parametrize("name", ["NVIDIA Z1", "NVIDIA L2", "NVIDIA H20 NVL16"])
def test_a_card_without_a_rated_clock_has_no_rating(name: str) -> None:
    """Its own maximum SM clock is no substitute: an H100's would make OFU 7.6 % too low."""
    assert rate(device(name)) is None
    assert rate(device(name, sm_count=58, max_sm_clock_hz=2e9)) is None


def test_an_estimate_is_the_cards_own_maximum_for_both_domains() -> None:
    gpu = device("NVIDIA Z1", max_sm_clock_hz=2e9)
    assert estimate(gpu) == Rating({"low_precision": 2e9, "fp64": 2e9}, {}, "estimated", "")
    assert estimate(device("NVIDIA Z1")) is None
    assert estimate(device("NVIDIA Z1", max_sm_clock_hz=0.0)) is None


def test_b100_is_known_but_not_rated() -> None:
    assert key_of(device("", "2920")) == "B100"
    assert rate(device("", "2920", max_sm_clock_hz=1.8e9)) is None


def test_a_3080_is_told_by_its_pci_id_from_the_one_with_other_memory() -> None:
    assert key_of(device("NVIDIA GeForce RTX 3080", "2206")) == "RTX-3080"
    assert key_of(device("NVIDIA GeForce RTX 3080", "220a")) == "RTX-3080-12GB"


def test_rtx_pro_5000_has_the_clock_of_its_published_figures() -> None:
    """2064 TOPS of sparse FP4 on 110 SMs are 2290 MHz, 65 TFLOP/s of FP32 are 2308."""
    from_fp4 = 2064e12 / 2 / (110 * 4096)
    from_fp32 = 65e12 / (110 * 128 * 2)
    clock_hz = rated(device("NVIDIA RTX PRO 5000 Blackwell")).tensor_clock_hz["low_precision"]
    assert from_fp4 - 1e6 <= clock_hz <= from_fp32


@every(ROWS, lambda row: row.key)
def test_every_rating_is_usable(row: GpuModel) -> None:
    rating = rate(
        device(
            row.names[0] if row.names else "",
            row.pci_device_ids[:1][0] if row.pci_device_ids else "",
        )
    )
    if row.tensor_clock_hz is None:
        assert rating is None
        return
    assert rating is not None
    assert set(rating.tensor_clock_hz) == {"low_precision", "fp64"}
    assert all(value > 0 for value in rating.peak_flops.values())
    for precision in PRECISIONS:
        assert rating.peak_flops.get(precision) == row.peak_flops(precision)


# The user's own rows.


def test_a_users_row_wins_by_name_and_by_pci_id() -> None:
    mine = custom_row(name="NVIDIA H100 80GB HBM3", tensor_clock_hz=1.7e9)
    other = custom_row(name=" ", pci_device_id="2335", tensor_clock_hz=1.6e9)
    assert find_row(device("NVIDIA-H100-80GB-HBM3", "2330"), (other, mine)) is mine
    assert find_row(device("NVIDIA H200", "2335"), (mine, other)) is other
    assert find_row(device("NVIDIA H200"), (mine, other)) is BY_KEY["H200-SXM"]
    assert find_row(device("", ""), (mine, other)) is None


def test_a_users_row_is_rated_as_written() -> None:
    mine = custom_row(
        name="NVIDIA X1",
        sm_count=100,
        tensor_clock_hz=2e9,
        fp64_clock_hz=1e9,
        flops_per_cycle_per_sm={"bf16": 1024, "fp64": 64},
    )
    for reported in (None, 96, 100, 10):
        rating = rated(device("nvidia x1", sm_count=reported), mine)
        assert rating.tensor_clock_hz == {"low_precision": 2e9, "fp64": 1e9}
        assert rating.peak_flops == {"bf16": 100 * 1024 * 2e9, "fp64": 100 * 64 * 1e9}
        assert (rating.origin, rating.model) == ("configured", "NVIDIA X1")


def test_a_users_row_may_leave_the_sms_to_the_device() -> None:
    mine = custom_row(name="NVIDIA X1", tensor_clock_hz=2e9, flops_per_cycle_per_sm={"bf16": 512})
    assert rated(device("NVIDIA X1"), mine).peak_flops == {}
    assert rated(device("NVIDIA X1", sm_count=50), mine).peak_flops == {"bf16": 50 * 512 * 2e9}
    assert rated(device("NVIDIA X1", sm_count=50), mine).tensor_clock_hz["fp64"] == 2e9


def test_a_users_row_that_cannot_work_is_refused() -> None:
    with pytest.raises(ConfigError, match="name or a pci_device_id"):
        custom_row(name=" ", tensor_clock_hz=2e9)
    with pytest.raises(ConfigError, match="no precision bf61; known: fp64"):
        custom_row(name="X", tensor_clock_hz=2e9, flops_per_cycle_per_sm={"bf61": 1})


# Anything at all.


@given(st.text())
def test_a_name_that_is_no_known_name_is_unknown(name: str) -> None:
    gpu = device(name)  # whose name has escapes for what is not printable
    assert (find_row(gpu) is not None) == (normalise(gpu.name) in KNOWN_NAMES)


@given(st.sampled_from(sorted(KNOWN_NAMES)), st.text(min_size=1), st.booleans())
def test_a_known_name_with_something_added_is_unknown(known: str, extra: str, after: bool) -> None:
    name = known + extra if after else extra + known
    gpu = device(name)  # whose name has escapes for what is not printable
    assert (find_row(gpu) is not None) == (normalise(gpu.name) in KNOWN_NAMES)


@given(
    st.sampled_from([row for row in ROWS if row.names and row.tensor_clock_hz]),
    st.lists(
        st.tuples(st.sampled_from((None, 0, 100, 130, 132, 148, 152)), st.sampled_from(("", "7"))),
        min_size=2,
        max_size=2,
    ),
)
def test_devices_that_are_rated_under_one_name_are_rated_alike(
    row: GpuModel, kinds: list[tuple[int | None, str]]
) -> None:
    own = Gpu("0", "GPU-0", name=row.names[0], sm_count=row.sm_count)
    devices = [own, *(replace(own, sm_count=sms, instance=part) for sms, part in kinds)]
    ratings = [each for each in map(rate, devices) if each is not None]
    for first in ratings:
        assert first.rated_as.startswith(first.model)
        for second in ratings:
            if first.rated_as == second.rated_as:
                assert first == second


@given(
    st.builds(
        device,
        name=st.one_of(st.sampled_from([name for _, name in NAMED]), st.text()),
        pci_device_id=st.one_of(st.sampled_from([i for _, i in IDENTIFIED]), st.text()),
        sm_count=st.one_of(st.none(), st.integers(0, 300)),
        compute_capability=st.one_of(st.none(), st.tuples(st.integers(0, 99), st.integers(0, 9))),
        mib=st.one_of(st.none(), st.integers(0, 2**20)),
        max_sm_clock_hz=st.one_of(st.none(), st.floats(0, 5e9)),
        instance=st.sampled_from(["", "1"]),
    )
)
def test_no_device_makes_it_fail(gpu: Gpu) -> None:
    row = find_row(gpu)
    assert row is None or row in ROWS
    rating = rate(gpu)
    assert rating is None or all(value > 0 for value in rating.tensor_clock_hz.values())


# The table in the documentation.


OF_CLUSTERS = re.compile(
    r"\| (V100-SXM2|T4|A100-SXM4|A30|A10 |A40|L4 |L40S|H[12]00|H20 |G?B[23]00|VR200)"
)
"""Rows of the table that the page shows: what most clusters have."""
OTHERS = re.compile(
    r"\| (RTX-|Quadro-|TITAN-|V100-SXM3|V100S?-PCIe|A100-SXM-64GB|A10G|A16|A2 |L40 |L20|L2 |H800|H20-3e|GB10 )"
)
"""Rows that it leaves out."""


def test_the_table_has_every_model() -> None:
    cells = [line.split(" | ")[0].strip("| ") for line in markdown().splitlines()[2:]]
    keys = re.sub(r" \(\w+\)", "", ", ".join(cells)).split(", ")
    assert sorted(keys) == sorted(row.key for row in ROWS)


def test_every_model_is_one_of_clusters_or_left_out_of_the_page_on_purpose() -> None:
    unsorted = [
        line
        for line in markdown().splitlines()[2:]
        if bool(OF_CLUSTERS.match(line)) == bool(OTHERS.match(line))
    ]
    assert unsorted == [], "name it in OF_CLUSTERS, and docs/gpus.md shows it, or in OTHERS"


def test_the_page_shows_the_models_of_clusters_as_the_table_has_them(
    generated: Callable[[Path, str], None],
) -> None:
    path = REPO / "docs" / "gpus.md"
    page = path.read_text(encoding="utf-8")
    head, rule, *models = markdown().splitlines()
    rows = [head, rule, *(line for line in models if OF_CLUSTERS.match(line))]
    before, heading, after = page.partition(rows[0])
    rest = re.sub(r"^(?:\|.*\n?)+", "", after.partition("\n")[2])
    assert heading
    generated(path, before + "\n".join(rows) + "\n" + rest)


def test_the_page_names_every_disputed_model() -> None:
    page = (REPO / "docs" / "gpus.md").read_text(encoding="utf-8")
    section = page.split("## Disputed figures")[1].split("\n## ")[0]
    assert [row.key for row in ROWS if row.disputed and row.key not in section] == []
