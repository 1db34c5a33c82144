"""Every reason why something is not measured, believed or accepted, and what the user can do about it."""

from __future__ import annotations

from enum import Enum


class _Advised(str, Enum):
    """A reason, which is the value of a label, and what the user can do about it in one sentence.

    A member is written as `reason: advice`.
    """

    _value_: str
    advice: str

    def __new__(cls, text: str) -> _Advised:
        reason, what_to_do = text.split(": ", maxsplit=1)
        member = str.__new__(cls, reason)
        member._value_, member.advice = reason, what_to_do
        return member


class Reason(_Advised):
    """Why a GPU, or a whole source, is not measured; the label value of `ofu_gpu_unavailable`."""

    STARTING = "starting: Wait: the first window is not complete yet."
    NO_LIBRARY = (
        "no_library: Install the NVIDIA driver, or make libnvidia-ml.so.1 visible here (in a container: the nvidia "
        "runtime class or toolkit); for --source dcgm, install DCGM's client library, libdcgm.so.4."
    )
    NO_DRIVER = (
        "no_driver: Load the NVIDIA kernel driver; `nvidia-smi` must work on this node first."
    )
    DRIVER_MISMATCH = (
        "driver_mismatch: The driver (or DCGM) was replaced under the running agent or is half upgraded: restart the "
        "agent, and the node if that is not enough."
    )
    DRIVER_REPLACED = (
        "driver_replaced: The driver was unloaded or replaced under the running agent, which then exits with code 6: "
        "let its supervisor (systemd, Kubernetes) start it again."
    )
    DRIVER_TOO_OLD = (
        "driver_too_old: The driver lacks what the detail names: update the driver (GPM counters came with R520), or "
        "read the GPU through another source."
    )
    NO_PERMISSION = (
        "no_permission: Give the agent access to /dev/nvidia*; GPUs before Hopper also need root or "
        "NVreg_RestrictProfilingToAdminUsers=0. Where the detail names the socket of a host engine, give the agent's "
        "user write access to it, or reach the host engine by TCP."
    )
    NO_DEVICE_FILES = (
        "no_device_files: The driver answers with an unknown error (999), as where a container has lost its device "
        "files (`systemctl daemon-reload`): recreate the container, as Kubernetes does when /healthz fails; on a "
        "bare node, look for Xid messages in `dmesg`."
    )
    NO_GPU = (
        "no_gpu: No GPU is visible here: check the node, the container's devices or the exporter."
    )
    NOT_SUPPORTED = (
        "not_supported: This GPU has no GPM counters (Hopper and newer have them): read it through dcgm-exporter "
        "with --source dcgm-exporter, or through DCGM with --source dcgm --dcgm-pre-hopper."
    )
    NO_INSTANCE = (
        "no_gpu_instance: MIG is on and the GPU is not divided, so nothing can run on it: make an instance "
        "(`nvidia-smi mig -cgi PROFILE -C`), or turn MIG off."
    )
    COUNTER_BUSY = (
        "counter_busy: Another program holds the counters (Nsight, a second profiler): stop it, or wait until it "
        "ends; where DCGM was paused for it, run `ofu-exporter resume`."
    )
    LOST = "lost: The GPU fell off the bus: look for Xid messages in `dmesg`, drain the node, reset the GPU."
    HUNG = (
        "hung: A call of the source does not return: with nvml look for Xid messages in `dmesg` and drain the node, "
        "with dcgm restart nv-hostengine, with dcgm-exporter restart that exporter."
    )
    STALE = (
        "stale: No new sample came in time: see ofu_exporter_read_failures_total and the log, and whether the agent "
        "itself was stopped or got no CPU time."
    )
    UNCHANGED = (
        "unchanged: The other exporter has repeated the same values for too long: restart it, and keep energy or "
        "power among its counters, which show that a GPU is alive."
    )
    NO_TENSOR_COUNTER = (
        "no_tensor_counter: The source has no tensor activity for this GPU: enable DCGM_FI_PROF_PIPE_TENSOR_ACTIVE "
        "(DCGM_FI_PROF_TENSOR_UTIL_RATIO since 4.9) in dcgm-exporter's counters, or use --source nvml on Hopper and "
        "newer."
    )
    NO_CLOCK = (
        "no_clock: The source has no SM clock for this GPU. With dcgm-exporter, enable DCGM_FI_DEV_SM_CLOCK "
        "(DCGM_FI_DEV_SM_CLOCK_HERTZ since 4.9) in its counters. With dcgm, `dcgmi dmon -e 100` shows what the host "
        "engine has: restart it if that is N/A while `nvidia-smi -q -d CLOCK` shows an SM clock."
    )
    BLANK = "blank: The counter answered that it has no value yet: wait one window; if it stays, restart its source."
    IMPOSSIBLE = (
        "impossible: The counter gave an impossible value (see ofu_gpu_rejected_samples_total): if it stays, restart "
        "its source and report it."
    )
    IMPLAUSIBLE = (
        "implausible: The counters contradict each other or stand still (the detail says which): restart the source "
        "(DCGM, or the driver), and compare with `nvidia-smi dmon`."
    )
    UNKNOWN_MODEL = (
        "unknown_model: The tensor clock of this model is not known, so there is no OFU: write the row that the "
        "detail shows into the configuration file."
    )
    NO_TENSOR_PIPES = (
        "no_tensor_pipes: This GPU has no tensor pipes (GPUs before Volta and GeForce GTX have none), so it has no "
        "OFU: nothing is wrong."
    )
    VGPU = (
        "vgpu: A vGPU has no profiling counters unless it owns a whole MIG instance: measure on the host, or give "
        "the virtual machine the whole GPU (passthrough)."
    )
    DUPLICATE = (
        "duplicate_uuid: Two GPUs have this uuid, and only the first is "
        "measured: fix the source that names them."
    )
    UNREACHABLE = (
        "unreachable: Start the other exporter and point --url at it, or start DCGM's nv-hostengine and point "
        "--dcgm-address at it."
    )
    NOT_METRICS = (
        "not_metrics: What answers at --url is not a Prometheus page: point "
        "--url at dcgm-exporter's /metrics."
    )
    BAD_RECORDING = "bad_recording: Point --path at a file that `ofu-exporter record` wrote."
    RECORDING_ENDED = "recording_ended: The recording is over; replay it again, or add --loop."
    PAUSED = (
        "paused: The agent was told to let go of the GPUs: when the work on them is done, run `ofu-exporter resume`, "
        "or remove the pause file."
    )
    FAILED = "failed: An unexpected error: see the log, and report it."


class SchedulerReason(_Advised):
    """Why it is not known who owns the GPUs; the label value of `ofu_exporter_scheduler_unavailable`."""

    STARTING = "starting: Wait: the scheduler has not been asked yet."
    ABSENT = "absent: This node has no such scheduler: mount its socket or directory, or leave it out of --scheduler."
    NO_JOB_YET = (
        "no_job_yet: No job with a GPU has begun here since the node's boot, or Slurm's prolog is not set up "
        "(docs/slurm.md)."
    )
    UNREACHABLE = (
        "unreachable: Nothing answers: see whether kubelet runs and its socket is mounted, or whether the disk of the "
        "job files hangs."
    )
    SETTLING = (
        "settling: Wait: kubelet was restarted and does not list all of its pods yet; if it stays, see whether "
        "kubelet reaches the API server."
    )
    NO_PERMISSION = "no_permission: Give the agent's user access to the socket or directory that the detail names."
    RATE_LIMITED = (
        "rate_limited: Too many programs ask kubelet at once; the agent asks again by itself."
    )
    TOO_LARGE = (
        "too_large: The answer is too large for one node: report it, with the number of pods."
    )
    BAD_ANSWER = "bad_answer: The answer is not of the expected kind or version: report it."
    UNTRUSTED = (
        "untrusted: The directory of job files can be written by others: make it root's (or the agent's) with mode "
        "0755."
    )
    NO_LIBRARY = "no_library: Install the packages of the extra `kubernetes`: pip install h2."
    FAILED = "failed: An unexpected error: see the log, and report it."


class ClaimRejection(str, Enum):
    """Why a claim of a scheduler was rejected; the label value of `ofu_exporter_scheduler_rejected_total`."""

    NOT_A_FILE = "not_a_file"
    FOREIGN_OWNER = "foreign_owner"
    WRITABLE_BY_OTHERS = "writable_by_others"
    TOO_LARGE = "too_large"
    NOT_TEXT = "not_text"
    MALFORMED = "malformed"
    BAD_JOB_ID = "bad_job_id"
    OTHER_BOOT = "other_boot"
    EXPIRED = "expired"
    UNREADABLE = "unreadable"
    TOO_MANY = "too_many"
    UNKNOWN_DEVICE = "unknown_device"
    CONTESTED = "contested"


class Rejection(str, Enum):
    """Why one sample was rejected; the label value of `ofu_gpu_rejected_samples_total`."""

    TENSOR_OUT_OF_RANGE = "tensor_out_of_range"
    CLOCK_OUT_OF_RANGE = "clock_out_of_range"
    NOT_A_NUMBER = "not_a_number"
    WINDOW_TOO_SHORT = "window_too_short"
    WINDOW_TOO_LONG = "window_too_long"
    OVERLAP = "overlap"
    DUPLICATE = "duplicate_uuid"
    CYCLES_IMPLAUSIBLE = "cycles_implausible"
    ACTIVITY_OUT_OF_RANGE = "activity_out_of_range"
    SM_BELOW_TENSOR = "sm_below_tensor"
    ENGINE_BELOW_SM = "engine_below_sm"
    FROZEN = "frozen"
    ZERO_WHILE_BUSY = "zero_while_busy"
    CLOCK_ZERO = "clock_zero"
    TIME_BACKWARDS = "time_backwards"


class ReportRejection(str, Enum):
    """Why a report was refused; the label value of `ofu_exporter_rejected_reports_total`.

    A member is written as `status reason: advice`.
    """

    _value_: str
    status: int
    """The HTTP status of the answer."""
    advice: str
    """What the user can do about it, one sentence."""

    def __new__(cls, text: str) -> ReportRejection:
        label, what_to_do = text.split(": ", maxsplit=1)
        number, reason = label.split()
        member = str.__new__(cls, reason)
        member._value_, member.status, member.advice = reason, int(number), what_to_do
        return member

    MALFORMED = (
        "422 malformed: Send the fields that /openapi.json describes; `loc` names the one at fault."
    )
    OUT_OF_RANGE = "422 out_of_range: Send a possible value; `loc` names the field at fault."
    IN_FUTURE = (
        "422 in_future: Synchronize the clocks of the job and of the node, and send Unix seconds."
    )
    TOO_OLD = "422 too_old: Report within minutes: the agent no longer knows the OFU of that time."
    OVERLAP = "409 overlap: Let one process per node report each interval once (local rank 0)."
    UNKNOWN_JOB = "404 unknown_job: Report to the node on which the job has its GPUs, under its scheduler's job id."
    ENDED = "409 ended: Send the tile overhead and other facts while the job runs: they count from then on."
    NOT_YOURS = (
        "403 not_yours: Send the job's own token (OFU_EXPORTER_TOKEN_FILE) or one of the site's."
    )
    NO_TOKEN = "401 no_token: Send `Authorization: Bearer TOKEN`: the site's, or on the job's node the job's own."
    WRONG_TOKEN = (
        "401 wrong_token: Send a token that is in the agent's --report-token-file now, or with --pod-tokens the "
        "pod's for ofu-exporter."
    )
    NOT_CHECKED = (
        "503 not_checked: Send it again later; after `API server: 403` let the agent's service account create "
        "tokenreviews."
    )
    NOT_LOCAL = (
        "403 not_local: Report from the node itself, to its loopback address or the Unix socket and without a proxy, "
        "or give the agent a --report-token-file."
    )
    NOT_JSON = "415 not_json: Send a JSON body with `Content-Type: application/json`."
    TOO_LARGE = "413 too_large: Send one report per request, 256 KiB at most."
    TOO_SLOW = "408 too_slow: Send the whole body within 10 seconds."
    TOO_MANY = "429 too_many: Wait as long as Retry-After says, and report less often."
    TOO_MANY_JOBS = (
        "429 too_many_jobs: Wait until jobs have ended: the agent keeps reports "
        "of a limited number of jobs at once."
    )


class QueryReason(_Advised):
    """Why a Prometheus did not answer a query."""

    UNREACHABLE = (
        "unreachable: Check --prometheus, and that its host and port can be reached from here."
    )
    BUSY = "busy: Ask again later, or raise the server's limit on concurrent queries."
    TOO_MUCH = (
        "too_much: Even one hour is too much for one query of this server: load the recording rules, or raise its "
        "limits."
    )
    SILENT = "silent: Look at the server's log, and at proxies before it; ask for less by --since."
    DENIED = (
        "denied: Check --bearer-token-file, --user and --password-file, --ca, --client-cert, or --tenant "
        "(X-Scope-OrgID)."
    )
    REFUSED = "refused: The server does not know this query: report it, with the server's name and version."
    NOT_PROMETHEUS = (
        "not_prometheus: Check the path in --prometheus: Mimir has its API below /prometheus, VictoriaMetrics' "
        "cluster below /select/0/prometheus."
    )
    AN_AGENT = "an_agent: Give the Prometheus that scrapes it, or without one --hosts and the agents' names."
    A_PAGE = "a_page: Give --prometheus without this path, as http://prometheus:9090."
