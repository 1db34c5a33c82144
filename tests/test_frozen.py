"""Values are frozen: a dataclass or model that may be changed is the state of one owner, and named here."""

from __future__ import annotations

import ast

import pytest

from tests.helpers.rooms import trees

pytestmark = pytest.mark.xdist_group("modules read")

CHANGED = {
    "agent.trace_desk": {"_Request"},
    "client.intervals": {"_OpenInterval"},
    "fleet.changes.peer_hours": {"NodeHours"},
    "fleet.changes.peers": {"PeerHours", "_Sum"},
    "fleet.changes.report": {"Collected"},
    "fleet.digest.signs": {"JobSigns"},
    "fleet.history.fleet_history": {
        "FleetHistory",
        "JobHistory",
        "JobSums",
        "MeasuredHours",
        "ModelSums",
    },
    "fleet.history.progress_sums": {"ProgressSums"},
    "fleet.history.served_sums": {"ServedSums"},
    "fleet.history_server": {"QueryCost"},
    "fleet.reports.one_job": {"GpuHours", "JobStory"},
    "fleet.simulation.job_hours": {"HourOfJob", "_Reports"},
    "flops.trace.fitting": {"Fitted"},
    "flops.trace.recorder": {"TracedProduct", "Weights"},
    "flops.trace.routing": {"ExpertChoice"},
    "recordings.recording": {"Recording"},
    "reports.cause_question": {"Inquiry"},
    "reports.entry": {"Entry"},
    "reports.pulls": {"PulledEngine"},
    "schedulers.kubernetes.gpu_pods": {"GpuPod"},
    "schedulers.kubernetes.pods": {"_KnownPod"},
    "schedulers.slurm.trusted_files": {"Contents"},
    "sources.dcgm_exporter.driver": {"_Track"},
    "sources.dcgm_exporter.page": {"ExporterPage", "PageRow"},
    "sources.dcgm_exporter.stretch": {"Stretch"},
    "sources.simulate.driver": {"_Totals"},
    "traces.formats": {"_Sum"},
    "traces.registry": {"Process"},
    "traces.seconds": {"TimeCell"},
    "values.served": {"Served"},
}
"""Changed by their owner alone, or made by the thousand where frozen ones take too long."""


def is_frozen(call: ast.expr) -> bool:
    return isinstance(call, ast.Call) and any(
        word.arg == "frozen" and ast.unparse(word.value) == "True" for word in call.keywords
    )


def name_of(call: ast.expr) -> str:
    return ast.unparse(call.func if isinstance(call, ast.Call) else call)


def test_a_dataclass_is_frozen_or_named_above() -> None:
    changed: dict[str, set[str]] = {}
    for module, tree in trees().items():
        for each in ast.walk(tree):
            if isinstance(each, ast.ClassDef):
                makers = [call for call in each.decorator_list if name_of(call) == "dataclass"]
                if makers and not all(map(is_frozen, makers)):
                    changed.setdefault(module, set()).add(each.name)
    assert changed == CHANGED


def test_what_a_dataclass_says_of_itself_it_is() -> None:
    """Frozen, with slots: thousands of them are held, and a name that is misspelt is an error."""
    for module, tree in trees().items():
        for each in ast.walk(tree):
            if isinstance(each, ast.ClassDef):
                for call in each.decorator_list:
                    if isinstance(call, ast.Call) and name_of(call) == "dataclass":
                        said = {
                            word.arg: ast.unparse(word.value)
                            for word in call.keywords
                            if word.arg != "config"
                        }
                        assert {*said.values()} <= {"True"}, (module, each.name)


UNEVEN = {
    "ofu.clock",
    "ofu.shown",
    "fleet.changes.tails",
    "flops.trace.masks",
    "sources.nvml.gpm",
    "sources.nvml.inner_samples",
    "traces.formats.ncu",
}
"""They pair one list with a longer one."""


def test_lists_that_go_together_are_of_one_length_or_refused() -> None:
    uneven = {
        module
        for module, tree in trees().items()
        for each in ast.walk(tree)
        if isinstance(each, ast.Call)
        and name_of(each) == "zip"
        and any(
            word.arg == "strict" and ast.unparse(word.value) != "True" for word in each.keywords
        )
    }
    assert uneven == UNEVEN


def test_a_model_is_frozen() -> None:
    for module, tree in trees().items():
        for each in ast.walk(tree):
            if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "model_config":
                assert is_frozen(each.value), module
