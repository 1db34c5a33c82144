"""The documentation and the code say the same."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click
import pytest
import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from ofu_exporter import schedulers, sources
from ofu_exporter.cli import cli
from ofu_exporter.cli.settings import flag_of, listed_options, option_models, other_flags, shown
from ofu_exporter.flops import conventions, families, readers
from ofu_exporter.flops.causes import Side, causes
from ofu_exporter.reports.feeds import REPORTING
from ofu_exporter.serving import metrics as names
from ofu_exporter.settings import FILE_ONLY, Settings
from ofu_exporter.traces import formats, kernel_names
from ofu_exporter.traces.findings import kinds
from ofu_exporter.values.gpu import FP64, LOW_PRECISION
from ofu_exporter.values.reasons import (
    ClaimRejection,
    Reason,
    Rejection,
    ReportRejection,
    SchedulerReason,
)
from ofu_exporter.values.reported import Verdict
from tests.helpers.agent import agent
from tests.helpers.every import every
from tests.helpers.markdown import anchors, links, prose_words, with_section

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def reasons() -> list[str]:
    rows = [f"| `{reason.value}` | {reason.advice} |" for reason in Reason]
    return ["| reason | what to do |", "|---|---|", *rows]


def scheduler_reasons() -> list[str]:
    rows = [f"| `{reason.value}` | {reason.advice} |" for reason in SchedulerReason]
    return ["| reason | what to do |", "|---|---|", *rows]


def report_reasons() -> list[str]:
    rows = [f"| `{r.value}` | {r.status} | {r.advice} |" for r in ReportRejection]
    return ["| reason | status | what to do |", "|---|---|---|", *rows]


def settings() -> list[str]:
    lines = []
    titled = (
        (f"{kind.title()} `{name}`", model) for (kind, name), model in listed_options().items()
    )
    models: list[tuple[str, type[BaseModel]]] = [("Common", Settings), *titled]
    for title, model in models:
        fields = {
            name: field for name, field in model.model_fields.items() if name not in FILE_ONLY
        }
        if not fields:
            continue
        lines += ["", f"### {title}", ""]
        lines += ["| flag | default | |", "|---|---|---|"]
        for name, field in fields.items():
            flag = flag_of(name, field)
            assert re.sub("[-.]", "_", flag.removeprefix("--")) == name, "as the page says"
            default = "needed" if field.is_required() else default_of(field)
            flags = " or ".join(f"`{each}`" for each in (flag, *other_flags(field)))
            lines.append(f"| {flags} | {default} | {field.description} |")
    return lines[1:]


def default_of(field: FieldInfo) -> str:
    text = shown(field, field.default)
    return text if text == "none" else f"`{text}`"


GPU_LABELS = ("gpu", "uuid", "gpu_instance")


def metrics() -> list[str]:
    return [
        f"- `{spec.shown_name}`{labels(spec.labels)}: {spec.help}" for spec in names.every_metric()
    ]


def labels(of: Sequence[str]) -> str:
    """The labels of a metric in parentheses; "GPU" stands for those that a GPU is known by."""
    rest = [label for label in of if label not in GPU_LABELS]
    shown = [*(["GPU"] if {*of} >= {*GPU_LABELS} else []), *rest]
    return f" ({', '.join(shown)})" if shown else ""


def causes_of_explain() -> list[str]:
    nothing = {Side.HARDWARE: "nothing: ", Side.REPORT: ""}
    rows = [f"| `{c.slug}` | {c.shown_ratio} | {nothing[c.side]}{c.meaning} |" for c in causes()]
    return ["| cause | ratio | what is wrong |", "|---|---|---|", *rows]


def findings() -> list[str]:
    rows = [f"| `{kind.name}` | {kind.meaning} | {kind.remedy} |" for kind in kinds()]
    return ["| finding | what | what helps |", "|---|---|---|", *rows]


@pytest.mark.parametrize(
    ("page", "section"),
    [
        ("where.md", findings),
        ("explain.md", causes_of_explain),
        ("troubles.md", reasons),
        ("troubles.md", scheduler_reasons),
        ("troubles.md", report_reasons),
        ("configuration.md", settings),
        ("metrics.md", metrics),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_generated_sections_are_up_to_date(
    page: str, section: Callable[[], list[str]], generated: Callable[[Path, str], None]
) -> None:
    name = getattr(section, "__name__", "")
    generated(DOCS / page, with_section(DOCS / page, name, section()))


def test_every_claim_that_is_not_believed_is_explained() -> None:
    text = (DOCS / "troubles.md").read_text()
    assert [each.value for each in ClaimRejection if f"`{each.value}`" not in text] == []


def test_the_readme_is_read_in_three_minutes() -> None:
    assert prose_words(ROOT / "README.md") <= 600


def test_the_readme_explains_the_model_that_the_demo_runs() -> None:
    config = "tests/flops/configs/qwen3-30b-a3b.json"
    model = REPORTING["moe-pretrain"].facts["model"]
    assert model["config"].items() <= json.loads((ROOT / config).read_text()).items()
    assert f"--config {config} --seq-len {model['seq_len']}" in (ROOT / "README.md").read_text()


def test_every_source_is_on_the_page_of_first_steps() -> None:
    text = (DOCS / "start.md").read_text()
    assert [name for name in sources.names() if f"`{name}`" not in text] == []


def test_every_scheduler_has_a_page_that_the_readme_leads_to() -> None:
    text = (ROOT / "README.md").read_text()
    assert [name for name in schedulers.automatic() if f"(docs/{name}.md)" not in text] == []


def test_every_callback_is_on_the_page_about_reporting() -> None:
    text = (DOCS / "reporting.md").read_text()
    files = (ROOT / "ofu_exporter" / "client").glob("*.py")
    callbacks = [path.stem for path in files if "class OfuCallback" in path.read_text()]
    assert {"huggingface", "lightning"} <= {*callbacks}
    assert [each for each in callbacks if f"ofu_exporter.client.{each}" not in text] == []


def test_every_family_convention_reader_grammar_and_profile_format_is_documented() -> None:
    examples = [grammar.example for grammar in kernel_names.GRAMMARS.values()]
    for page, documented in (
        ("flops.md", [*families.names(), *conventions.names(), *readers.names()]),
        ("reporting.md", readers.log_names()),
        ("validation.md", [*kernel_names.GRAMMARS, *formats.names(), *examples]),
    ):
        text = (DOCS / page).read_text()
        assert [name for name in documented if f"`{name}`" not in text] == [], f"not in {page}"


def test_what_a_finding_means_and_an_option_of_a_driver_does_is_one_sentence() -> None:
    texts = {kind.name: kind.meaning for kind in kinds()}
    for model in option_models().values():
        texts |= {name: field.description or "" for name, field in model.model_fields.items()}
    sentence = re.compile(r"[A-Z](?:(?![.!?] [A-Z]).)*\.")
    assert [name for name, text in texts.items() if not sentence.fullmatch(text)] == []


def test_every_metric_named_in_the_documentation_exists() -> None:
    known = {spec.shown_name for spec in names.every_metric()}
    for path in [ROOT / "README.md", ROOT / "CHANGELOG.md", *DOCS.glob("*.md")]:
        # What stands between colons is recorded by a rule: tests/deploy/test_rules.py knows those.
        pattern = r"(?<!:)\bofu_(?:gpu|model|job|exporter)_[a-z0-9_]+\b"
        for name in re.findall(pattern, path.read_text()):
            assert name in known, f"{path.name}: {name}"


def test_the_name_of_a_metric_says_its_type() -> None:
    """As the page on metrics says."""
    for spec in names.every_metric():
        counts = spec.shown_name.endswith("_total")
        summary = spec.shown_name == "ofu_exporter_read_seconds"
        assert spec.kind == ("counter" if counts else "summary" if summary else "gauge")


def test_every_refused_reading_and_every_word_of_an_answer_is_documented() -> None:
    text = (DOCS / "accuracy.md").read_text()
    assert [each.value for each in Rejection if f"`{each.value}`" not in text] == []
    text = (DOCS / "ofu.md").read_text()
    words = [*sources.names(), *(verdict.value for verdict in Verdict), LOW_PRECISION, FP64]
    assert [word for word in words if f"`{word}`" not in text] == []


@pytest.mark.slow
def test_every_endpoint_is_on_the_page_about_pages() -> None:
    text = (DOCS / "terminal.md").read_text()
    with agent("demo") as running:
        paths = json.loads(running.get("/openapi.json")[1])["paths"]
    assert "/v1/gpus" in paths
    for path in ["/", "/metrics", "/openapi.json", *paths]:
        assert path.partition("/{")[0] in text, path


def commands(group: click.Group, before: str = "") -> Iterator[str]:
    for name, command in group.commands.items():
        yield before + name
        if isinstance(command, click.Group):
            yield from commands(command, f"{before}{name} ")


def test_every_command_is_somewhere_in_the_documentation() -> None:
    text = "".join(page.read_text() for page in (ROOT / "README.md", *DOCS.glob("*.md")))
    every_name = {*commands(cli)} - {"help"}
    assert "fleet report" in every_name
    shown = re.compile(r"(?:`?ofu-exporter |`)((?:[a-z]+(?: (?=[a-z]))?)+)")
    words = {" ".join(found.split()[:n]) for found in shown.findall(text) for n in (1, 2)}
    assert every_name - words == set()


PAGES = (
    *ROOT.glob("*.md"),
    *DOCS.glob("*.md"),
    *(ROOT / "helm").rglob("*.md"),
    *(ROOT / "helm").rglob("*.yaml"),
    *(path for path in (ROOT / "deploy").rglob("*") if path.suffix in {".md", ".sh", ".service"}),
)


MARKDOWN = [page for page in PAGES if page.suffix == ".md"]


@every(PAGES)
def test_every_flag_shown_with_a_command_is_one_of_its_flags(page: Path) -> None:
    text = re.sub(r"\\\n\s*", " ", page.read_text())
    for words in re.findall(r"ofu-exporter +([a-z]+[^\n`|;&#]*)", text):
        command, *rest = words.split()
        found = cli.commands.get(command)
        if isinstance(found, click.Group):
            found = found.commands.get(rest[0]) if rest else None
        if found is not None:
            params = found.get_params(click.Context(found))
            known = {flag for each in params for flag in (*each.opts, *each.secondary_opts)}
            shown = {word.partition("=")[0] for word in rest if re.match("--[a-z]", word)}
            assert shown <= known | {"--help"}, words


def test_every_variable_in_the_documentation_is_a_setting() -> None:
    models: list[type[BaseModel]] = [Settings, *option_models().values()]
    known = {f"OFU_{name.upper()}" for model in models for name in model.model_fields}
    for page in PAGES:
        # OFU_EXPORTER_... are the client's and the scripts', not settings of the agent.
        for name in re.findall(r"\bOFU_(?!EXPORTER_)[A-Z_]*[A-Z]\b", page.read_text()):
            assert name in known | {"OFU_CONFIG", "OFU_AGENT", "OFU_RUN"}, f"{page.name}: {name}"


def test_every_variable_of_the_client_and_the_scripts_is_documented_and_no_other() -> None:
    def named(*paths: Path) -> set[str]:
        texts = "".join(path.read_text() for path in paths)
        return {*re.findall(r"\bOFU_EXPORTER_[A-Z_]*[A-Z]\b", texts)}

    scripts = (ROOT / "deploy" / "slurm").glob("*.sh")
    used = named(*(ROOT / "ofu_exporter").rglob("*.py"), *scripts)
    assert "OFU_EXPORTER_LINGER" in used
    assert named(ROOT / "README.md", *DOCS.glob("*.md")) == used


@every(MARKDOWN)
def test_links_inside_the_documentation_lead_somewhere(page: Path) -> None:
    for target in links(page):
        name, _, anchor = target.partition("#")
        if "://" not in target and not target.startswith("mailto:"):
            at = page.parent / name if name else page
            assert at.exists(), target
            assert not anchor or anchor in anchors(at), target


@every(sorted(DOCS.rglob("*.md")))
def test_a_page_says_first_for_whom_it_is(page: Path) -> None:
    first = page.read_text().split("\n\n")[1]
    assert first.startswith("For ") or page.stem == "index", "docs/adding.md, Page of these docs"


@every(sorted(DOCS.rglob("*.md")))
def test_a_page_is_read_in_six_minutes(page: Path) -> None:
    """At 250 words a minute; tables, examples and generated parts are looked up, not read."""
    assert prose_words(page) <= 1500


def test_all_pages_together_do_not_grow() -> None:
    """Words as `wc -w` counts them, with tables and what is generated."""
    pages = [ROOT / "README.md", *DOCS.rglob("*.md")]
    words = sum(len(page.read_text().split()) for page in pages)
    assert words <= 52_000, "for every sentence that you add to README.md or docs/, shorten another"


FOR_CONTRIBUTORS = [ROOT / "CONTRIBUTING.md", DOCS / "architecture.md", DOCS / "adding.md"]
MEASURED = sorted((ROOT / "tests" / "measured").glob("*.md"))


@every(FOR_CONTRIBUTORS)
def test_every_file_that_a_page_for_contributors_names_is_there(page: Path) -> None:
    """A path without a `<name>` in it, from the top or from within the package."""
    for name in re.findall(r"`(\w[\w.-]*/[\w./-]*)`", page.read_text()):
        assert (ROOT / name).exists() or (ROOT / "ofu_exporter" / name).exists(), name


def test_every_name_of_the_code_that_a_page_for_contributors_has_is_in_it() -> None:
    named = ROOT / "helm/ofu-exporter/files/alerts", ROOT / "ofu_exporter", ROOT / "tests/deploy"
    files = [path for folder in named for end in ("*.py", "*.yaml") for path in folder.rglob(end)]
    files += [ROOT / "pyproject.toml", ROOT / "mkdocs.yml"]
    code = {word for path in files for word in re.findall(r"\w+", path.read_text())}
    for page in FOR_CONTRIBUTORS:
        names = re.findall(r"`([A-Za-z]\w*)(?:\([^`]*\))?`", page.read_text())
        assert [name for name in names if name not in code] == [], page


@every([*MEASURED, *MARKDOWN])
def test_every_file_of_the_project_that_a_page_names_is_there(page: Path) -> None:
    for name in re.findall(
        r"`((?:tests|docs|deploy|helm|ofu_exporter)/[\w./-]+)`", page.read_text()
    ):
        assert (ROOT / name).exists(), name


@every([*FOR_CONTRIBUTORS, *MEASURED, *DOCS.glob("*.md")])
def test_every_program_of_the_project_that_a_page_runs_is_one(page: Path) -> None:
    for module in re.findall(r"python -m ((?:tests|deploy)[\w.]*\w)", page.read_text()):
        path = ROOT / module.replace(".", "/")
        is_folder = (path / "__main__.py").exists()
        assert is_folder or "__main__" in path.with_suffix(".py").read_text(), module


def test_the_example_of_a_gpu_of_ones_own_is_accepted() -> None:
    (block,) = re.findall(r"```yaml\n(gpus:.*?)```", (DOCS / "gpus.md").read_text(), re.DOTALL)
    example = yaml.safe_load(block)
    assert Settings.model_validate(example).gpus[0].tensor_clock_hz == 1.83e9


def test_the_cost_of_a_node_has_the_numbers_of_the_table_of_series() -> None:
    metrics, start = ((DOCS / name).read_text() for name in ("metrics.md", "start.md"))
    series = dict(re.findall(r"^\| ([^|]+) \| (\d+) \|$", metrics, re.MULTILINE))
    names = ("", " in 7 MIG instances each")
    idle, mig = (series[f"an idle node of 8 GPUs{name}"] for name in names)
    busy = series["the node while one job has all 8 GPUs"]
    assert f"{idle} series, {busy} with a job" in start
    assert f"{mig} with 7 MIG instances a GPU" in start
