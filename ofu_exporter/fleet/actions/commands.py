"""The command that shows more of a job, as it stands on a page."""

from __future__ import annotations

import shlex

from ofu_exporter.fleet.reports.result import AGENTS, FleetReport, JobRow


def command(report: FleetReport, row: JobRow) -> str:
    """What shows a job in the time of the report, to be copied and run as it stands; secrets are the reader's own."""
    job = _argument(row.job_id)
    if report.server == AGENTS:
        return f"`ofu-exporter job show {job}` on its node"
    shown = f"job {job}"
    if len(report.clusters) > 1:
        shown += f" --cluster {_argument(row.cluster)}"
    if row.user and (row.cluster, row.job_id) in report.reused_ids:
        shown += f" --owner {_argument(row.user)}"
    if report.source != "agents":  # no other exporter knows what one job did
        shown = f"report --from {report.source} --by job"
    server = f"--prometheus {_argument(report.server)}"
    server += f" --tenant {_argument(report.tenant)}" if report.tenant else ""
    time = f"--since {report.time.hours}h --until {report.time.end}"
    return f"`ofu-exporter fleet {shown} {server} {time}`"


def _argument(text: str) -> str:
    """Quoted for bash and zsh, with an escape for what would end the code on a page, or break its line."""
    return "".join(
        letter if letter.isprintable() and letter != "`" else f"'$'{_escape(letter)}''"
        for letter in shlex.quote(text)
    )


def _escape(letter: str) -> str:
    return r"\x60" if letter == "`" else letter.encode("unicode_escape").decode()
