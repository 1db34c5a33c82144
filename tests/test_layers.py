"""Imports point down: the rooms of the package in their order, read from the syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "ofu_exporter"
PACKAGE = "ofu_exporter"

# Lowest first. A module may import what stands in a lower row, never its neighbours in a row.
ROWS: tuple[tuple[str, ...], ...] = (
    ("ofu_exporter",),
    ("client.intervals", "client.identity", "client.channel"),
    ("client.sending",),
    ("client.reporter",),
    ("client",),
    ("client.steps",),
    ("client.huggingface", "client.lightning"),
    ("values",),
    ("errors",),
    ("values.reported",),
    ("values.snapshot",),
    ("gpu_rows",),
    ("gpus", "config", "recording", "dcgm_page", "boot", "page_client", "log_lines", "systemd"),
    ("ofu", "cycles", "values.device_names", "jobs", "truth"),
    ("window", "holdings", "divergence"),
    ("observation", "job_report"),
    ("job_summary",),
    ("pipeline",),
    ("flops.terms", "flops.neutral", "flops.reports"),
    ("flops.lengths", "flops.fields", "flops.shapes", "flops.passes", "flops.modules"),
    ("flops.blocks", "flops.hf"),
    ("flops.diffusion", "flops.encoding", "flops.models"),
    ("flops.families", "flops.conventions", "flops.readers"),
    ("flops.families.*", "flops.conventions.*", "flops.readers.*"),
    ("flops.counting", "log_tail"),
    ("log_post",),
    ("flops.mfu",),
    ("flops",),
    ("tiles",),
    ("tiles.*",),
    ("gemm_shapes", "json_stream", "profiles", "simulated_gemms"),
    ("profiles.*",),
    ("overhead",),
    ("causes",),
    ("causes.*",),
    ("explain",),
    ("secret_files", "rate_limit", "connections"),
    ("access", "accounts", "mfu_report"),
    ("http_limits", "intervals", "report_mfu"),
    ("report_entry",),
    ("reports",),
    ("simulated_reports",),
    ("slurm",),
    ("slurm.trusted_files", "slurm.squeue", "slurm.admin_comment"),
    ("slurm.job_files",),
    ("slurm.job_map", "slurm.job_tokens"),
    ("slurm.prolog",),
    ("kube",),
    ("kube.unary", "kube.api_server", "kube.workloads"),
    ("kube.pod_resources",),
    ("kube.dra",),
    ("kube.gpu_pods",),
    ("kube.pods", "kube.settling", "kube.claims"),
    ("nvml_errors",),
    ("gpm", "mig"),
    ("libdcgm",),
    ("host_engine",),
    ("dcgm_samples", "dcgm_devices"),
    ("dcgm_watching",),
    ("dcgm_session",),
    ("sources", "schedulers"),
    ("sources.*", "schedulers.*"),
    ("lanes", "notices", "choosing", "opening"),
    ("open_source",),
    ("source_set",),
    ("sampling", "attribution", "state", "gathering", "pulls"),
    ("feeds",),
    ("metrics.spec",),
    ("metrics.gpu", "metrics.job", "metrics.report", "metrics.agent"),
    ("metrics",),
    ("exposition",),
    ("job_book", "gpu_state", "report_api"),
    ("job_api",),
    ("api",),
    ("server",),
    ("assembly", "logs"),
    ("daemon",),
    ("validation",),
    (
        "validation.plan",
        "validation.results",
        "validation.storage",
        "validation.simulated",
        "validation.watching",
        "validation.torch_products",
    ),
    (
        "validation.session",
        "validation.cuda",
        "validation.accuracy",
        "validation.noise",
        "validation.clocks",
    ),
    ("validation.report",),
    ("validation.plot",),
    ("cli.settings", "cli.step", "cli.job_end", "cli.job_totals", "cli.facts"),
    (
        "cli.run",
        "cli.check",
        "cli.record",
        "cli.lists",
        "cli.job",
        "cli.flops",
        "cli.explain",
        "cli.tail",
        "cli.pause",
    ),
    ("cli.tile", "cli.profile", "cli.validate"),
    ("cli",),
    ("__main__",),
)


def module_name(path: Path, root: Path = ROOT) -> str:
    """`sources.nvml` for sources/nvml.py, `sources` for its __init__, the package's name for the root."""
    parts = [*path.relative_to(root).with_suffix("").parts]
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts) or PACKAGE


def row_of(module: str) -> int:
    for number, row in enumerate(ROWS):
        if module in row:
            return number
    family = module.rpartition(".")[0] + ".*"
    for number, row in enumerate(ROWS):
        if family in row:
            return number
    raise AssertionError(f"{module} has no place in the order of rooms")


def imported(tree: ast.AST, module: str, is_package: bool, modules: set[str]) -> Iterator[str]:
    """Every module of the package that a tree imports, in whatever form and wherever."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from own(alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            base = origin(node, module, is_package)
            for alias in node.names:
                whole = [*base, alias.name]
                is_module = ".".join(whole[1:]) in modules and whole[0] == PACKAGE
                yield from own(whole if is_module else base)


def origin(node: ast.ImportFrom, module: str, is_package: bool) -> list[str]:
    """The absolute path that a `from` import starts at."""
    named = node.module.split(".") if node.module else []
    if not node.level:
        return named
    here = [PACKAGE, *([] if module == PACKAGE else module.split("."))]
    up = node.level - is_package
    return [*(here[:-up] if up else here), *named]


def own(path: list[str]) -> Iterator[str]:
    if path and path[0] == PACKAGE:
        yield ".".join(path[1:]) or PACKAGE


SOURCES = sorted(ROOT.rglob("*.py"))
MODULES = {module_name(path) for path in SOURCES}


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_imports_point_down(path: Path) -> None:
    module = module_name(path)
    tree = ast.parse(path.read_text())
    upward = [
        other
        for other in imported(tree, module, path.name == "__init__.py", MODULES)
        if row_of(other) >= row_of(module)
    ]
    assert not upward, f"{module} imports {upward}, which stand beside or above it"


@pytest.mark.parametrize(
    "text",
    [
        "from ofu_exporter.daemon import Daemon",
        "from ofu_exporter import daemon",
        "import ofu_exporter.daemon",
        "import ofu_exporter.daemon as d",
        "from . import daemon",
        "from .daemon import Daemon",
        "def f():\n    from ofu_exporter import daemon",
        "if TYPE_CHECKING:\n    from ofu_exporter.daemon import Daemon",
        "try:\n    import ofu_exporter.daemon\nexcept ImportError:\n    pass",
    ],
)
def test_every_form_of_import_is_seen(text: str) -> None:
    assert "daemon" in set(imported(ast.parse(text), "records", False, MODULES))


def test_a_package_import_inside_a_package_is_seen() -> None:
    tree = ast.parse("from ..daemon import Daemon\nfrom . import nvml")
    assert set(imported(tree, "sources.replay", False, MODULES)) == {"daemon", "sources.nvml"}


def test_every_row_names_modules_that_exist() -> None:
    named = {module for row in ROWS for module in row if not module.endswith(".*")}
    assert named <= MODULES


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_every_file_says_its_job_in_its_first_sentence(path: Path) -> None:
    doc = ast.get_docstring(ast.parse(path.read_text()))
    assert doc, f"{path} has no docstring"
    assert doc.split("\n\n", maxsplit=1)[0].rstrip().endswith((".", ":"))


def test_only_the_command_line_ends_the_process() -> None:
    for path in SOURCES:
        if not module_name(path).startswith(("cli", "__main__")):
            assert "sys.exit" not in path.read_text(), path
