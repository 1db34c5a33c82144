"""Reports the MFU of a training loop to the agent of its node, with the standard library only.

    from ofu_exporter.client import Reporter

    with Reporter(gpus=256, precision="bf16") as reporter:
        for step in range(steps):
            ...
            reporter.report(mfu=flops_per_step / step_seconds / peak, step=step)

`ofu_exporter.client.lightning` and `.huggingface` have callbacks for those frameworks; import them where you use them.
No module here imports anything else of this package, so a job's image needs no dependency.
"""

from ofu_exporter.client.reporter import Facts, Reporter

__all__ = ["Facts", "Reporter"]
