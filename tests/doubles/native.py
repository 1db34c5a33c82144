"""Compiles the stand-ins for vendors' libraries that are written in C."""

from __future__ import annotations

import ctypes
import errno
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(tempfile.gettempdir()) / f"ofu-exporter-test-{os.getuid()}"
"""Where the compiled libraries are."""
SEARCHED = "LD_LIBRARY_PATH"
FLAGS = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-O1", "-fPIC", "-shared", "-pthread")


@functools.cache
def build(source: Path, soname: str, hidden: str = "") -> Path:
    """The compiled library, compiled once for each content of its source and of those beside it.

    It lacks the functions that `hidden` matches, as an older one does.
    """
    texts = [source, *sorted(source.parent.glob("*.[ch]"))]
    flags = (*FLAGS, f"-Wl,-soname,{soname}")
    content = b"".join(text.read_bytes() for text in texts) + " ".join((*flags, hidden)).encode()
    digest = hashlib.sha256(content).hexdigest()[:16]
    folder = ROOT / f"{source.stem}-{digest}"
    library = folder / soname
    if library.exists():
        return library
    compiler = shutil.which("cc")
    if compiler is None:
        raise FileNotFoundError(errno.ENOENT, "apt-get install gcc libc6-dev", "cc")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Test processes may do this at once: each compiles its own, and the last rename wins.
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        fresh = Path(scratch) / soname
        script = Path(scratch) / "symbols"
        shown = f"global: *; local: {hidden};" if hidden else "global: *;"
        script.write_text(f"{{ {shown} }};\n", encoding="utf-8")
        done = subprocess.run(
            [compiler, *flags, f"-Wl,--version-script={script}", "-o", str(fresh), str(source)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{source} does not compile:\n{done.stderr}")
        fresh.replace(library)
    return library


def searched(environment: Mapping[str, str]) -> list[Path]:
    """The folders in which a new process with this environment looks for libraries first."""
    return [Path(folder) for folder in environment.get(SEARCHED, "").split(os.pathsep) if folder]


def load_all(environment: Mapping[str, str]) -> None:
    """Load the stand-ins that a new process with this environment would find, as if this process were new."""
    for folder in searched(environment):
        if ROOT in folder.parents:
            for library in folder.glob("*.so*"):
                load(library)


@functools.cache
def load(library: Path) -> ctypes.CDLL:
    """Load a compiled library into this process, where the code under test finds it by its name.

    LD_LIBRARY_PATH is read only when a process starts; a library that is already loaded under the
    name is found in any case. It stays for the life of the process.
    """
    loaded = ctypes.CDLL(str(library))
    if ctypes.CDLL(library.name)._handle != loaded._handle:
        raise RuntimeError(f"another {library.name} is loaded: run this test in its own process")
    return loaded
