"""What a training loop uses to report its MFU: standard library only, and no other module of this package.

    from ofu_exporter.client import Reporter

    with Reporter(gpus=256, precision="bf16") as reporter:
        for step in range(steps):
            ...
            reporter.report(mfu=flops_per_step / step_seconds / peak, step=step)

A module of `ofu_exporter.client` imports nothing from outside of it, so a job's image needs no dependency.
"""

from ofu_exporter.client.reporter import Facts, Reporter

__all__ = ["Facts", "Reporter"]
