"""Every reason why something is not measured, believed or accepted, and what the user can do about it."""

from __future__ import annotations

from enum import Enum


class Reason(str, Enum):
    """Why a GPU, or a whole source, is not measured; the label value of `ofu_gpu_unavailable`."""

    STARTING = "starting"
    NO_LIBRARY = "no_library"
    NO_DRIVER = "no_driver"
    DRIVER_MISMATCH = "driver_mismatch"
    DRIVER_REPLACED = "driver_replaced"
    DRIVER_TOO_OLD = "driver_too_old"
    NO_PERMISSION = "no_permission"
    NO_GPU = "no_gpu"
    NOT_SUPPORTED = "not_supported"
    NO_INSTANCE = "no_gpu_instance"
    COUNTER_BUSY = "counter_busy"
    LOST = "lost"
    HUNG = "hung"
    STALE = "stale"
    UNCHANGED = "unchanged"
    NO_TENSOR_COUNTER = "no_tensor_counter"
    NO_CLOCK = "no_clock"
    BLANK = "blank"
    IMPOSSIBLE = "impossible"
    IMPLAUSIBLE = "implausible"
    UNKNOWN_MODEL = "unknown_model"
    NO_TENSOR_PIPES = "no_tensor_pipes"
    VGPU = "vgpu"
    DUPLICATE = "duplicate_uuid"
    UNREACHABLE = "unreachable"
    NOT_METRICS = "not_metrics"
    BAD_RECORDING = "bad_recording"
    RECORDING_ENDED = "recording_ended"
    PAUSED = "paused"
    FAILED = "failed"

    @property
    def advice(self) -> str:
        """What the user can do about it, one sentence."""
        return ADVICE[self]


ADVICE: dict[Reason, str] = {
    Reason.STARTING: "Wait: the first window is not complete yet.",
    Reason.NO_LIBRARY: (
        "Install the NVIDIA driver, or make libnvidia-ml.so.1 visible here "
        "(in a container: the nvidia runtime class or toolkit); for --source dcgm, install DCGM's "
        "client library, libdcgm.so.4."
    ),
    Reason.NO_DRIVER: "Load the NVIDIA kernel driver; `nvidia-smi` must work on this node first.",
    Reason.DRIVER_MISMATCH: (
        "The driver (or DCGM) was replaced under the running agent or is half upgraded: restart the agent, "
        "and the node if that is not enough."
    ),
    Reason.DRIVER_REPLACED: (
        "The driver was unloaded or replaced under the running agent, which then exits with code 6: "
        "let its supervisor (systemd, Kubernetes) start it again."
    ),
    Reason.DRIVER_TOO_OLD: (
        "The driver lacks what the detail names: update the driver "
        "(GPM counters came with R520), or read the GPU through another source."
    ),
    Reason.NO_PERMISSION: (
        "Give the agent access to /dev/nvidia*; GPUs before Hopper also need root "
        "or NVreg_RestrictProfilingToAdminUsers=0. Where the detail names the socket of a host engine, give "
        "the agent's user write access to it, or reach the host engine by TCP."
    ),
    Reason.NO_GPU: "No GPU is visible here: check the node, the container's devices or the exporter.",
    Reason.NOT_SUPPORTED: (
        "This GPU has no GPM counters (Hopper and newer have them): read it through dcgm-exporter "
        "with --source dcgm-exporter, or through DCGM with --source dcgm --dcgm-pre-hopper."
    ),
    Reason.NO_INSTANCE: (
        "MIG is on and the GPU is not divided, so nothing can run on it: make an instance "
        "(`nvidia-smi mig -cgi PROFILE -C`), or turn MIG off."
    ),
    Reason.COUNTER_BUSY: (
        "Another program holds the counters (Nsight, a second profiler): stop it, or wait until it ends; "
        "where DCGM was paused for it, run `ofu-exporter resume`."
    ),
    Reason.LOST: "The GPU fell off the bus: look for Xid messages in `dmesg`, drain the node, reset the GPU.",
    Reason.HUNG: (
        "A call of the source does not return: with nvml look for Xid messages in `dmesg` and drain "
        "the node, with dcgm restart nv-hostengine, with dcgm-exporter restart that exporter."
    ),
    Reason.STALE: (
        "No new sample came in time: see ofu_exporter_read_failures_total and the log, and whether the agent "
        "itself was stopped or got no CPU time."
    ),
    Reason.UNCHANGED: (
        "The other exporter has repeated the same values for too long: restart it, "
        "and keep energy or power among its counters, which show that a GPU is alive."
    ),
    Reason.NO_TENSOR_COUNTER: (
        "The source has no tensor activity for this GPU: enable DCGM_FI_PROF_PIPE_TENSOR_ACTIVE "
        "(DCGM_FI_PROF_TENSOR_UTIL_RATIO since 4.9) in dcgm-exporter's counters, "
        "or use --source nvml on Hopper and newer."
    ),
    Reason.NO_CLOCK: (
        "The source has no SM clock for this GPU. With dcgm-exporter, enable DCGM_FI_DEV_SM_CLOCK "
        "(DCGM_FI_DEV_SM_CLOCK_HERTZ since 4.9) in its counters. With dcgm, `dcgmi dmon -e 100` shows what the "
        "host engine has: restart it if that is N/A while `nvidia-smi -q -d CLOCK` shows an SM clock."
    ),
    Reason.BLANK: "The counter answered that it has no value yet: wait one window; if it stays, restart its source.",
    Reason.IMPOSSIBLE: (
        "The counter gave an impossible value (see ofu_gpu_rejected_samples_total): "
        "if it stays, restart its source and report it."
    ),
    Reason.IMPLAUSIBLE: (
        "The counters contradict each other or stand still (the detail says which): "
        "restart the source (DCGM, or the driver), and compare with `nvidia-smi dmon`."
    ),
    Reason.UNKNOWN_MODEL: (
        "The tensor clock of this model is not known, so there is no OFU: "
        "write the row that the detail shows into the configuration file."
    ),
    Reason.NO_TENSOR_PIPES: (
        "This GPU has no tensor pipes (GPUs before Volta and GeForce GTX have none), so it has no OFU: "
        "nothing is wrong."
    ),
    Reason.VGPU: (
        "A vGPU has no profiling counters unless it owns a whole MIG instance: measure on the host, "
        "or give the virtual machine the whole GPU (passthrough)."
    ),
    Reason.DUPLICATE: "Two GPUs have this uuid, and only the first is measured: fix the source that names them.",
    Reason.UNREACHABLE: (
        "Start the other exporter and point --url at it, or start DCGM's nv-hostengine and point "
        "--dcgm-address at it."
    ),
    Reason.NOT_METRICS: "What answers at --url is not a Prometheus page: point --url at dcgm-exporter's /metrics.",
    Reason.BAD_RECORDING: "Point --path at a file that `ofu-exporter record` wrote.",
    Reason.RECORDING_ENDED: "The recording is over; replay it again, or add --loop.",
    Reason.PAUSED: (
        "The agent was told to let go of the GPUs: when the work on them is done, run `ofu-exporter resume`, "
        "or remove the pause file."
    ),
    Reason.FAILED: "An unexpected error: see the log, and report it.",
}


class SchedulerReason(str, Enum):
    """Why it is not known who owns the GPUs; the label value of `ofu_exporter_scheduler_unavailable`."""

    STARTING = "starting"
    ABSENT = "absent"
    NO_JOB_YET = "no_job_yet"
    UNREACHABLE = "unreachable"
    SETTLING = "settling"
    NO_PERMISSION = "no_permission"
    RATE_LIMITED = "rate_limited"
    TOO_LARGE = "too_large"
    BAD_ANSWER = "bad_answer"
    UNTRUSTED = "untrusted"
    NO_LIBRARY = "no_library"
    FAILED = "failed"

    @property
    def advice(self) -> str:
        """What the user can do about it, one sentence."""
        return SCHEDULER_ADVICE[self]


SCHEDULER_ADVICE: dict[SchedulerReason, str] = {
    SchedulerReason.STARTING: "Wait: the scheduler has not been asked yet.",
    SchedulerReason.ABSENT: (
        "This node has no such scheduler: mount its socket or directory, or leave it out of --scheduler."
    ),
    SchedulerReason.NO_JOB_YET: (
        "No job with a GPU has begun here since the node's boot, or Slurm's prolog is not set up (docs/slurm.md)."
    ),
    SchedulerReason.UNREACHABLE: "Nothing answers: see whether kubelet runs and its socket is mounted.",
    SchedulerReason.SETTLING: (
        "Wait: kubelet was restarted and does not list all of its pods yet; if it stays, "
        "see whether kubelet reaches the API server."
    ),
    SchedulerReason.NO_PERMISSION: (
        "Give the agent's user access to the socket or directory that the detail names."
    ),
    SchedulerReason.RATE_LIMITED: "Too many programs ask kubelet at once; the agent asks again by itself.",
    SchedulerReason.TOO_LARGE: "The answer is too large for one node: report it, with the number of pods.",
    SchedulerReason.BAD_ANSWER: "The answer is not of the expected kind or version: report it.",
    SchedulerReason.UNTRUSTED: (
        "The directory of job files can be written by others: make it root's (or the agent's) with mode 0755."
    ),
    SchedulerReason.NO_LIBRARY: "Install the packages of the extra `kubernetes`: pip install h2.",
    SchedulerReason.FAILED: "An unexpected error: see the log, and report it.",
}


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
    """Why a report was refused; the label value of `ofu_exporter_rejected_reports_total`."""

    MALFORMED = "malformed"
    OUT_OF_RANGE = "out_of_range"
    IN_FUTURE = "in_future"
    TOO_OLD = "too_old"
    OVERLAP = "overlap"
    UNKNOWN_JOB = "unknown_job"
    ENDED = "ended"
    NOT_YOURS = "not_yours"
    NO_TOKEN = "no_token"
    WRONG_TOKEN = "wrong_token"
    NOT_CHECKED = "not_checked"
    NOT_LOCAL = "not_local"
    NOT_JSON = "not_json"
    TOO_LARGE = "too_large"
    TOO_SLOW = "too_slow"
    TOO_MANY = "too_many"
    TOO_MANY_JOBS = "too_many_jobs"

    @property
    def status(self) -> int:
        """The HTTP status of the answer."""
        return REPORT_STATUS[self]

    @property
    def advice(self) -> str:
        """What the user can do about it, one sentence."""
        return REPORT_ADVICE[self]


REPORT_STATUS: dict[ReportRejection, int] = {
    ReportRejection.MALFORMED: 422,
    ReportRejection.OUT_OF_RANGE: 422,
    ReportRejection.IN_FUTURE: 422,
    ReportRejection.TOO_OLD: 422,
    ReportRejection.OVERLAP: 409,
    ReportRejection.UNKNOWN_JOB: 404,
    ReportRejection.ENDED: 409,
    ReportRejection.NOT_YOURS: 403,
    ReportRejection.NO_TOKEN: 401,
    ReportRejection.WRONG_TOKEN: 401,
    ReportRejection.NOT_CHECKED: 503,
    ReportRejection.NOT_LOCAL: 403,
    ReportRejection.NOT_JSON: 415,
    ReportRejection.TOO_LARGE: 413,
    ReportRejection.TOO_SLOW: 408,
    ReportRejection.TOO_MANY: 429,
    ReportRejection.TOO_MANY_JOBS: 429,
}
REPORT_ADVICE: dict[ReportRejection, str] = {
    ReportRejection.MALFORMED: "Send the fields that /openapi.json describes; `loc` names the one at fault.",
    ReportRejection.OUT_OF_RANGE: "Send a possible value: an MFU is a ratio, 0.4 and not 40.",
    ReportRejection.IN_FUTURE: "Synchronize the clocks of the job and of the node, and send Unix seconds.",
    ReportRejection.TOO_OLD: "Report within minutes: the agent no longer knows the OFU of that time.",
    ReportRejection.OVERLAP: "Let one process per node report each interval once (local rank 0).",
    ReportRejection.UNKNOWN_JOB: "Report to the node on which the job has its GPUs, under its scheduler's job id.",
    ReportRejection.ENDED: "Send the tile overhead and other facts while the job runs: they count from then on.",
    ReportRejection.NOT_YOURS: "Send the job's own token (OFU_EXPORTER_TOKEN_FILE) or one of the site's.",
    ReportRejection.NO_TOKEN: "Send `Authorization: Bearer TOKEN`: the site's, or on the job's node the job's own.",
    ReportRejection.WRONG_TOKEN: (
        "Send a token that is in the agent's --report-token-file now, or with --pod-tokens the pod's for ofu-exporter."
    ),
    ReportRejection.NOT_CHECKED: (
        "Send it again later; after `API server: 403` let the agent's service account create tokenreviews."
    ),
    ReportRejection.NOT_LOCAL: (
        "Report from the node itself, to its loopback address or the Unix socket and without a proxy, "
        "or give the agent a --report-token-file."
    ),
    ReportRejection.NOT_JSON: "Send a JSON body with `Content-Type: application/json`.",
    ReportRejection.TOO_LARGE: "Send one report per request, 256 KiB at most.",
    ReportRejection.TOO_SLOW: "Send the whole body within 10 seconds.",
    ReportRejection.TOO_MANY: "Wait as long as Retry-After says, and report less often.",
    ReportRejection.TOO_MANY_JOBS: (
        "Wait until jobs have ended: the agent keeps reports of a limited number of jobs at once."
    ),
}


class QueryReason(str, Enum):
    """Why a Prometheus did not answer a query."""

    UNREACHABLE = "unreachable"
    BUSY = "busy"
    TOO_MUCH = "too_much"
    DENIED = "denied"
    REFUSED = "refused"
    NOT_PROMETHEUS = "not_prometheus"

    @property
    def advice(self) -> str:
        """What the user can do about it, one sentence."""
        return QUERY_ADVICE[self]


QUERY_ADVICE: dict[QueryReason, str] = {
    QueryReason.UNREACHABLE: "Check --prometheus, and that its host and port can be reached from here.",
    QueryReason.BUSY: "Ask again later, or raise the server's limit on concurrent queries.",
    QueryReason.TOO_MUCH: (
        "Even one hour is too much for one query of this server: load the recording rules, or raise its limits."
    ),
    QueryReason.DENIED: (
        "Check --bearer-token-file, --user and --password-file, --ca, --client-cert, or --tenant (X-Scope-OrgID)."
    ),
    QueryReason.REFUSED: "The server does not know this query: report it, with the server's name and version.",
    QueryReason.NOT_PROMETHEUS: (
        "Check the path in --prometheus: Mimir has its API below /prometheus, "
        "VictoriaMetrics' cluster below /select/0/prometheus."
    ),
}
