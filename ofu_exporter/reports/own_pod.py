"""Says whether a report comes from a pod of the job that it is about, by its address or by its proven name."""

from __future__ import annotations

from ofu_exporter.support.addresses import is_address, parsed
from ofu_exporter.values.job import Job


def why_not(address: str, job: Job) -> str:
    """Why an address is not that of a pod of the job; "" where it is one.

    The address must be the one that the connection comes from. No other pod can send from it, as long as the
    network of the cluster lets no pod forge its address, and no proxy stands in between.
    """
    if not job.addresses:
        return f"the addresses of the pods of job {job.job_id} are not known here"
    if is_address(address) and str(parsed(address)) in job.addresses:
        return ""
    return f"{address or 'a socket'} is no address of a pod of job {job.job_id}"


def why_not_of(pod: str, job: Job) -> str:
    """Why a pod, as `namespace/name`, is none of the job's; "" where it is one."""
    is_one = pod in (f"{job.namespace}/{job.name}", *job.aliases)
    if is_one and job.scheduler == "kubernetes":
        return ""
    return f"the token is that of pod {pod}, which is none of job {job.job_id}"
