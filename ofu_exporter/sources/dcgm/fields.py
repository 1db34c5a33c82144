"""The fields of a host engine that windows are made of, by their numbers in dcgm_fields.h."""

from __future__ import annotations

SM_CLOCK_MHZ = 100
TENSOR = 1004
PIPES = {"imma": 1013, "hmma": 1014, "dfma": 1015}
OTHER_PIPES = (1006, 1007, 1008, 1016)  # FP64, FP32, FP16, integer
SM = 1002
ENGINE_AND_SMS = {"engine": 1001, "sm": SM, "occupancy": 1003, "dram": 1005}
LINKS = {"pcie_sent": 1009, "pcie_received": 1010, "nvlink_sent": 1011, "nvlink_received": 1012}
"""In bytes per second, of whole GPUs."""
ACTIVITY = {
    **ENGINE_AND_SMS,
    **dict(zip(("fp64", "fp32", "fp16", "integer"), OTHER_PIPES, strict=True)),
    **LINKS,
}
"""Fields besides the tensor pipes' by which the rest of the peak is told apart."""
CYCLES_ELAPSED, CYCLES_TENSOR, CYCLES_DMMA = 1084, 1086, 1087
POWER_WATTS, POWER_LIMIT_WATTS = 155, 164
ENERGY_MILLIJOULES = 156
"""Since the driver was loaded."""
GPU_PERCENT = 203
"""The driver's utilization, and no profiling counter: it goes on when profiling stands still."""
OF_PIPES = tuple(PIPES.values())
OF_INSTANCES = (*OF_PIPES, *ENGINE_AND_SMS.values())
WITH_OTHERS = (*OF_PIPES, *ACTIVITY.values())
OVER_TIME = (*WITH_OTHERS, GPU_PERCENT)
"""Fields besides the tensor counter that are means over time. A window has each of them whose samples cover it."""
OF_CYCLES = (CYCLES_ELAPSED, CYCLES_TENSOR, CYCLES_DMMA)
"""Totals, each of which belongs to one instant. No instance has them, and before DCGM 4.6 no GPU."""
OF_PROFILING = (*WITH_OTHERS, *OF_CYCLES)
"""Fields that are measured together with the tensor counter, whatever their time stamps."""
BESIDE_THE_CLOCK = (GPU_PERCENT, POWER_WATTS, POWER_LIMIT_WATTS, ENERGY_MILLIJOULES)
"""Fields of whole GPUs that are not profiling fields."""
ENDING = ((TENSOR, *OF_PROFILING), OF_CYCLES, (TENSOR, PIPES["dfma"]))
"""A window ends where all fields of the first of these have a sample, otherwise with a sample of the tensor counter."""

CLOCK_SECONDS = 0.17
"""Time between two reads of the SM clock. A second, its half and its tenth are no multiples of it, so that a load
with such a period does not look the same in each read."""
