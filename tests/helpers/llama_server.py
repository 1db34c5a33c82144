"""A real serving engine on the CPU: `python -m tests.helpers.llama_server MODEL PORT` runs llama.cpp's server.

Its code comes with the package xllamacpp. The model is of random weights, and so small that it answers at once.
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from threading import Event
from typing import Any

from tests.helpers.agent import until
from tests.helpers.prometheus_server import answers, free_port

NEEDS = ("xllamacpp", "gguf")
WIDTH, INNER, HEADS, LAYERS, CONTEXT = 64, 128, 4, 2, 512
VOCABULARY = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
UNKNOWN, CONTROL, BYTE = 2, 3, 6
"""Types of tokens in a file of llama.cpp."""


def write_model(path: Path) -> None:
    """A Llama of random weights, whose tokens are bytes."""
    gguf, numpy = import_module("gguf"), import_module("numpy")
    random = numpy.random.default_rng(1)
    file = gguf.GGUFWriter(str(path), "llama")
    for name, value in (
        ("context_length", CONTEXT),
        ("embedding_length", WIDTH),
        ("block_count", LAYERS),
        ("feed_forward_length", INNER),
        ("head_count", HEADS),
        ("head_count_kv", HEADS),
        ("layer_norm_rms_eps", 1e-5),
        ("rope_dimension_count", WIDTH // HEADS),
        ("vocab_size", len(VOCABULARY)),
        ("tokenizer_model", "llama"),
        ("token_list", VOCABULARY),
        ("token_scores", [0.0] * len(VOCABULARY)),
        ("token_types", [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256]),
        ("unk_token_id", 0),
        ("bos_token_id", 1),
        ("eos_token_id", 2),
    ):
        getattr(file, f"add_{name}")(value)
    for name, shape in _tensors():
        values = random.normal(scale=0.05, size=shape) if len(shape) > 1 else numpy.ones(shape)
        file.add_tensor(f"{name}.weight", values.astype(numpy.float32))
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


def _tensors() -> Iterator[tuple[str, tuple[int, ...]]]:
    yield "token_embd", (len(VOCABULARY), WIDTH)
    yield "output", (len(VOCABULARY), WIDTH)
    yield "output_norm", (WIDTH,)
    for layer in range(LAYERS):
        for name in ("attn_norm", "ffn_norm"):
            yield f"blk.{layer}.{name}", (WIDTH,)
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            yield f"blk.{layer}.{name}", (WIDTH, WIDTH)
        for name in ("ffn_gate", "ffn_up"):
            yield f"blk.{layer}.{name}", (INNER, WIDTH)
        yield f"blk.{layer}.ffn_down", (WIDTH, INNER)


class LlamaServer:
    """A server that runs, and what its answers say that it computed."""

    def __init__(self, url: str) -> None:
        self.url = url

    def complete(self, prompt: str, tokens: int) -> dict[str, int]:
        """Tokens of one request by kind, as its answer states them."""
        wanted = {"prompt": prompt, "n_predict": tokens, "ignore_eos": True, "cache_prompt": True}
        body = json.dumps(wanted).encode()
        with urllib.request.urlopen(f"{self.url}/completion", body, timeout=300) as answer:
            timings = json.load(answer)["timings"]
        names = {"prompt": "prompt_n", "cached": "cache_n", "generation": "predicted_n"}
        return {kind: timings[name] for kind, name in names.items()}

    def is_up(self) -> bool:
        return answers(f"{self.url}/health")


@contextmanager
def llama_server(model: Path, port: int | None = None) -> Iterator[LlamaServer]:
    """Runs on this port of 127.0.0.1, and is killed."""
    port = port or free_port()
    command = [sys.executable, "-m", "tests.helpers.llama_server", str(model), str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        server = LlamaServer(f"http://127.0.0.1:{port}")
        until(server.is_up)
        yield server
    finally:
        process.kill()
        process.wait()


def main(model: str, port: str) -> None:
    xllamacpp: Any = import_module("xllamacpp")
    wanted = xllamacpp.CommonParams()
    wanted.model.path, wanted.hostnames, wanted.port = model, ["127.0.0.1"], int(port)
    wanted.endpoint_metrics, wanted.n_ctx, wanted.warmup = True, CONTEXT, False
    wanted.cpuparams.n_threads = 1
    server = xllamacpp.Server(wanted)
    Event().wait()
    del server


if __name__ == "__main__":
    main(*sys.argv[1:])
