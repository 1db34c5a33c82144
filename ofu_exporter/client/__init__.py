"""What a training loop uses to report its MFU: standard library only, and no other module of this package.

    from ofu_exporter.client import Reporter

    with Reporter(gpus=256, precision="bf16") as reporter:
        for step in range(steps):
            ...
            reporter.report(mfu=flops_per_step / step_seconds / peak, step=step)

`ofu_exporter.client.lightning` and `.huggingface` have callbacks of those frameworks, imported only by who uses them.
No module here imports anything else of this package, so a job's image needs no dependency.
"""

from ofu_exporter.client.reporter import Facts, Reporter

__all__ = ["Facts", "Reporter"]
