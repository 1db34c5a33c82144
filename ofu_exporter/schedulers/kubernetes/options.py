"""Has the settings of Kubernetes as a scheduler."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, field_validator

from ofu_exporter.support.durations import Seconds

AUTO_RANK: int | None = 0


class Options(BaseModel, frozen=True, extra="forbid", use_attribute_docstrings=True):
    """Where kubelet is, and what may be asked of the API server."""

    kubelet_socket: Path = Field(
        default=Path("/var/lib/kubelet/pod-resources/kubelet.sock"), examples=["FILE"]
    )
    """Socket on which kubelet says which pod has which device."""
    kubernetes_poll: Seconds = Field(default=5.0, ge=0.5, examples=["5s"])
    """Time between two requests to kubelet."""
    kubernetes_resources: str = Field(default="", examples=["NAME"])
    """Resources, separated by commas, that are GPUs besides nvidia.com/gpu, nvidia.com/gpu.* and nvidia.com/mig-*."""
    kubernetes_metadata: Literal["auto", "on", "off"] = "auto"
    """Whether to ask the API server which job a pod is part of: on, off, or auto, if this pod has a token."""
    kubernetes_user_label: str = Field(default="", examples=["KEY"])
    """Label or annotation of a pod that names its user."""
    kubernetes_account_label: str = Field(default="", examples=["KEY"])
    """Label or annotation of a pod that names its account."""
    node_name: str = Field(default="", examples=["NAME"])
    """This node's name in Kubernetes; needed for MIG devices given out by DRA."""
    cdi_dir: Path = Field(default=Path("/var/run/cdi"), examples=["DIR"])
    """Directory in which NVIDIA's DRA driver says which MIG instance it made for which claim."""
    slurm_containers: str = Field(default="slurmd", examples=["NAME"])
    """Containers, separated by commas, that run slurmd: their GPUs belong to Slurm's jobs, never to the pod."""

    @field_validator("kubernetes_metadata", mode="before")
    @classmethod
    def _yaml_takes_on_for_true(cls, value: object) -> object:
        return {True: "on", False: "off"}[value] if isinstance(value, bool) else value

    @property
    def more_resources(self) -> list[str]:
        """The names in `kubernetes_resources`."""
        return _names(self.kubernetes_resources)

    @property
    def slurmd(self) -> list[str]:
        """The names in `slurm_containers`."""
        return _names(self.slurm_containers)


def _names(text: str) -> list[str]:
    return [name for each in text.split(",") if (name := each.strip())]
