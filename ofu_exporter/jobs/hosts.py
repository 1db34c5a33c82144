"""Reads a list of nodes, and where the agent of each is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from ofu_exporter.errors import ConfigError
from ofu_exporter.support.bounded_get import shown_url
from ofu_exporter.support.small_files import read_small

MOST_HOSTS = 1024
_ITEM = re.compile(r"(?:[^\[\],\s]|\[[^\[\]]*\])+")
_GROUP = re.compile(r"\[([0-9,-]+)\]")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


class Host(NamedTuple):
    """A node by the name it was given, and where its agent is."""

    name: str
    url: str


def parse_hosts(text: str, port: int, scheme: str = "http") -> list[Host]:
    """The hosts that a list names: node[1-8],m7, or addresses; the scheme is that of names without one.

    Raises ConfigError.
    """
    rest = re.sub(r"[,\s]", "", _ITEM.sub("", text))
    if rest:
        raise ConfigError(f"hosts {shown_url(text)!r}: a bracket is not closed")
    names = dict.fromkeys(
        name for item in _ITEM.findall(text) for name in _limited(item, _expanded(item))
    )
    if not names:
        raise ConfigError("no host is named")
    return [_host(name, port, scheme) for name in _limited(text, names)]


def read_hosts(path: Path, port: int, scheme: str = "http") -> list[Host]:
    """The hosts that a file lists; what follows a # is a comment. Raises ConfigError."""
    lines = read_small(path, "--hosts-file").splitlines()
    try:
        return parse_hosts(" ".join(line.partition("#")[0] for line in lines), port, scheme)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def _limited(what: str, names: Iterable[str]) -> list[str]:
    hosts = list(islice(names, MOST_HOSTS + 1))
    if len(hosts) > MOST_HOSTS:
        raise ConfigError(f"{shown_url(what)} names over {MOST_HOSTS} hosts")
    return hosts


def _expanded(item: str) -> Iterator[str]:
    """The names that one item with any number of brackets stands for; an IPv6 address has none to expand."""
    if "://" in item or re.fullmatch(r"\[[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*\](:[0-9]+)?", item):
        yield item
        return
    group = _GROUP.search(item)
    if group is None:
        if "[" in item:
            raise ConfigError(f"host {item!r}: brackets hold numbers, as in node[1-4,7]")
        yield item
        return
    before, after = item[: group.start()], item[group.end() :]
    for number in _numbers(group[1]):
        yield from _expanded(f"{before}{number}{after}")


def _numbers(text: str) -> Iterator[str]:
    """The numbers of a bracket, with the leading zeros of the first of a range."""
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        first, last = (match[1], match[2] or match[1]) if match else ("1", "0")
        if int(first) > int(last):
            raise ConfigError(f"[{text}] is no list of numbers and ranges, as in [1-4,7]")
        for number in range(int(first), int(last) + 1):
            yield f"{number:0{len(first)}}"


def _host(name: str, port: int, scheme: str) -> Host:
    if "://" in name or name.startswith("unix:"):
        return Host(re.sub(r"^\w+://", "", shown_url(name)), name)
    if name.count(":") > 1 and not name.startswith("["):
        return Host(name, f"{scheme}://[{name}]:{port}")
    has_port = re.search(r"(?:^[^:]*|\]):[0-9]+$", name)
    return Host(name, f"{scheme}://{name}" if has_port else f"{scheme}://{name}:{port}")
