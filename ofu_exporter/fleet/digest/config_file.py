"""Reads a site's settings for digests from YAML: who is exempt, which targets hold, and how digests are sent."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from ofu_exporter.fleet.history.prices import Prices
from ofu_exporter.support import checked_yaml
from ofu_exporter.support.checked_yaml import YamlSection
from ofu_exporter.support.durations import Seconds
from ofu_exporter.support.numbers import NO_TRUTH, SIZEABLE, WholeNumber

NAME = "{name}"
"""Stands for the user or account in a pattern of addresses."""
ADDRESS = re.compile(
    r"(?=[^@]{1,64}(?:@[^@]{1,253})?$)[A-Za-z0-9_][A-Za-z0-9_+-]*(?:\.[A-Za-z0-9_+-]+)*"
    r"(?:@[A-Za-z0-9][A-Za-z0-9-]*(?:\.[A-Za-z0-9][A-Za-z0-9-]*)*)?"
)
"""A name that a service knows, or a mail address: a small part of what RFC 5321 allows, without characters that have a
meaning for headers, mail servers or URLs."""

PositiveRatio = Annotated[float, Field(gt=0.0, le=1.0), NO_TRUTH, SIZEABLE]
Pattern = Annotated[str, Field(min_length=1, max_length=200)]
"""`*` stands for any characters."""


PartitionTarget = Annotated[
    Annotated[PositiveRatio, Tag("all clusters")]
    | Annotated[dict[Pattern, PositiveRatio], Tag("by cluster"), Field(min_length=1)],
    Discriminator(lambda value: "by cluster" if isinstance(value, dict) else "all clusters"),
]


def _pattern(text: str) -> str:
    if text.count(NAME) != 1 or not ADDRESS.fullmatch(text.replace(NAME, "a")):
        raise ValueError(f"{text!r} is not a pattern such as {NAME}@example.org")
    return text


def _address(text: str) -> str:
    if not ADDRESS.fullmatch(text):
        raise ValueError(f"{text!r} is not an address such as a@example.org")
    return text


class Exemptions(YamlSection):
    """Jobs that nobody is asked to do anything about."""

    partitions: tuple[Pattern, ...] = Field(default=(), description="Interactive ones.")
    job_names: tuple[Pattern, ...] = ()
    users: tuple[Pattern, ...] = ()
    shorter_than: Seconds = Field(default=0.0, ge=0.0, le=30 * 86400.0)
    dram_busy: PositiveRatio | None = Field(
        default=None,
        description="Jobs whose GPUs' memory is at least this busy. Unknown is not busy.",
    )


class SendConfig(YamlSection):
    """Where digests go."""

    url: str = Field(
        default="", description="A URL of apprise; {to} in it is the reader's address."
    )
    url_file: Path | None = Field(default=None, description="A file of it, if it has a secret.")
    to: Annotated[str, AfterValidator(_pattern)] | None = None
    addresses: Path | None = Field(default=None, description="YAML, name: address.")
    report_to: tuple[Annotated[str, AfterValidator(_address)], ...] = Field(
        default=(), max_length=50, description="Addresses that `fleet report --send` goes to."
    )

    @model_validator(mode="after")
    def _one_url(self) -> SendConfig:
        if (not self.url) == (self.url_file is None):
            raise ValueError("needs one of url and url_file")
        return self

    @property
    def is_personal(self) -> bool:
        """Whether every reader has an address of their own."""
        return self.to is not None or self.addresses is not None


class DigestConfig(YamlSection):
    """A site's settings for digests."""

    exempt: Exemptions = Exemptions()
    targets: dict[Pattern, PartitionTarget] = Field(
        default_factory=dict,
        description="OFU by partition, or by partition and cluster; the first pattern that fits counts.",
    )
    low_clock: PositiveRatio = Field(
        default=0.6,
        description="SM clock / tensor clock below which the digest mentions a busy job's clock.",
    )
    ranks: bool = Field(default=True, description="Whether a digest shows the reader's rank.")
    most_jobs: WholeNumber = Field(default=20, ge=1, le=500)
    contact: str = Field(
        default="", max_length=500, description="The text at the end: whom to ask."
    )
    prices: Prices = Prices()
    send: SendConfig | None = None

    def target(self, cluster: str, partition: str) -> float | None:
        """The OFU that a partition of a cluster is to have; None where nothing here fits both."""
        for pattern, wanted in self.targets.items():
            clusters = wanted if isinstance(wanted, dict) else {"*": wanted}
            for each, target in clusters.items():
                if fnmatchcase(partition, pattern) and fnmatchcase(cluster, each):
                    return target
        return None


def read_config(path: Path) -> DigestConfig:
    """The configuration in a file. Raises ConfigError, one line that names the file and the line."""
    return checked_yaml.read(path, "digest", DigestConfig).content
