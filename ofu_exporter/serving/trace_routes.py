"""The route by which a trace of a running job is asked for, POST /v1/jobs/{job_id}/trace, where traces are on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Protocol

from fastapi import APIRouter, Depends, HTTPException, Request
from pydantic import BaseModel, ConfigDict, Field

from ofu_exporter.serving.access import PEER_UID, Warrant, Writer
from ofu_exporter.serving.guard import writer_of


class TraceRefused(HTTPException):
    """A trace that is not taken: a status and a sentence."""


class TraceOrder(BaseModel):
    """What is to be recorded, or which request is asked about."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    seconds: float = Field(default=2.0, ge=0.1, le=30.0, allow_inf_nan=False)
    gpus: tuple[int, ...] = Field(default=(), max_length=64)
    """As CUDA numbers them in the processes; empty = of all processes."""
    keep: bool = False
    """Leave the files in the agent's folder, for a day."""
    request: str = Field(default="", max_length=64)
    """An earlier answer's, to ask how that one stands."""


class TraceAnswer(BaseModel):
    """How a request for a trace stands."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    request: str
    job_id: str
    state: str
    """`waiting` until the processes ask, `recording`, `reading`, `done` or `failed`."""
    detail: str
    processes: int
    told: int
    """Processes that have been told to record."""
    arrived: int
    """Files that have come."""
    unread: dict[str, str]
    """Why files were not read."""
    files: list[str]
    """Files that are kept: all that arrived with `keep`, otherwise those that could not be read."""
    trace: dict[str, Any] | None
    """As `POST /v1/mfu` takes it; null where there is none."""


@dataclass(frozen=True, slots=True)
class TraceAsker:
    """Who asks for a trace."""

    uid: int | None
    """The user at the other end of the Unix socket; None = not known."""
    is_site: bool
    gpus: tuple[int, ...] = ()
    most: int = 0
    """Most processes that record; 0 = all."""

    @property
    def who(self) -> str:
        return "the site" if self.is_site else f"user {self.uid}"


class Desk(Protocol):
    """Who takes such requests."""

    def ask(self, job_id: str, order: TraceOrder, asker: TraceAsker) -> TraceAnswer:
        """Begin, or say how it stands. Raises TraceRefused."""


def trace_routes(desk: Desk) -> APIRouter:
    """The route of an application behind a `Guard`."""
    router = APIRouter()

    @router.post("/v1/jobs/{job_id:path}/trace", summary="Take a trace of a running job")
    def trace(
        job_id: str,
        order: TraceOrder,
        request: Request,
        writer: Annotated[Writer, Depends(writer_of)],
    ) -> TraceAnswer:
        is_local = writer.warrant is Warrant.LOCAL
        uid = request.scope.get("state", {}).get(PEER_UID) if is_local else None
        is_site = writer.is_site and writer.pod_address is None
        return desk.ask(job_id, order, TraceAsker(uid, is_site, order.gpus))

    return router
