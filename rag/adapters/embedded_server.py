"""The child process of the embedded language model: a llama.cpp server on loopback.

It is run as a script, imports nothing of Fenestra, and speaks with its parent like this: the
first line of its standard input is a JSON object with ``path`` (of the model file), ``name``,
``key`` (asked of every client) and ``context`` (tokens). When it can answer it writes one line,
``{"address": "http://127.0.0.1:port"}``, or ``{"error": reason}`` if it cannot, to its standard
output. It ends when its standard input does, which is also when the parent is killed.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import sys
import threading
import time
from importlib import import_module
from pathlib import Path
from typing import Any

_BATCH = 128
"""Prompt tokens read at once. A smaller batch costs nothing on a CPU, and a reader that goes away
is noticed after each."""
_KEPT_PROMPTS_MIB = 512
"""Memory for prompts that were read before, so that asking again starts at once."""


def main() -> None:
    """Serve until standard input ends."""
    # Ctrl-C in a terminal reaches the whole process group; the parent decides when this ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Whatever the native library prints goes to the log, not between the lines for the parent.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    config = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_input, daemon=True).start()
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    try:
        server = _serve(config)
    except (ImportError, RuntimeError) as error:
        _write(answers, {"error": str(error)})
        os._exit(1)
    _write(answers, {"address": server.listening_address})
    threading.Event().wait()


def _serve(config: dict[str, Any]) -> Any:
    xllamacpp: Any = import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = config["path"]
    params.model_alias = {config["name"]}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [config["key"]]
    params.n_ctx = config["context"]
    # One slot: an answer given up is broken off before the next begins, and two prompts read at
    # once would each take as long as both.
    params.n_parallel = 1
    params.n_batch = params.n_ubatch = _BATCH
    # Flash attention rounds differently with every split of a prompt into batches, so that an
    # answer would depend on what the cache happens to hold.
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    params.cache_ram_mib = _KEPT_PROMPTS_MIB
    params.cpuparams.n_threads = _threads()
    params.verbosity = 1
    params.ui = False
    params.endpoint_slots = False
    if platform.machine().lower() in ("x86_64", "amd64"):
        # Measured: without a second, rearranged copy of the weights a prompt takes a fifth less
        # time and the process half the memory.
        params.no_extra_bufts = True
    return xllamacpp.Server(params)


def _end_with_input() -> None:
    while sys.stdin.buffer.read(4096):
        pass
    os._exit(0)


def _end_with_parent(parent: int) -> None:
    """End also if another child of the parent still holds the other end of standard input."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(0)


def _threads() -> int:
    """Physical cores that this process may use."""
    if not hasattr(os, "sched_getaffinity"):
        return max(1, (os.cpu_count() or 2) // (1 if platform.machine() == "arm64" else 2))
    cores = {_core(number) for number in os.sched_getaffinity(0)}
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        allowed = len(cores) if quota == "max" else int(quota) // int(period)
    except (OSError, ValueError):
        allowed = len(cores)
    return max(1, min(len(cores), allowed))


def _core(number: int) -> str:
    """Which core a logical processor belongs to."""
    topology = Path(f"/sys/devices/system/cpu/cpu{number}/topology")
    try:
        package = (topology / "physical_package_id").read_text().strip()
        return f"{package}:{(topology / 'core_id').read_text().strip()}"
    except OSError:
        return str(number)


def _write(answers: Any, line: dict[str, str]) -> None:
    answers.write(json.dumps(line) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
