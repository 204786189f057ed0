"""Everything that can go wrong, as one tree. Each message ends with what to do next.

::

    RagError
    ├── SettingsError             a setting or an argument is missing or wrong
    ├── DocumentError             one document cannot be read; other files of a batch go on
    │   ├── UnsupportedFormat     no reader for this kind of file
    │   ├── UnreadableDocument    damaged, encrypted, or beyond the reader's limits
    │   ├── DocumentTooLarge      more bytes, pages or text than is accepted
    │   └── NoText                read, but there is no text in it (a scan?)
    ├── StoreError                the library on disk, or a server that keeps it
    │   ├── EmbeddingMismatch     vectors of another model than the one now in use
    │   ├── IndexUnavailable      no search for now (full disk, rights); the documents are there
    │   │   └── IndexDamaged      its files are broken; it is rebuilt from the catalog
    │   ├── LibraryBusy           another process owns the library
    │   └── NotFound              no such collection or document for this owner
    └── ModelError                the language model
        ├── ModelUnavailable      no answer, refused, not installed, wrong key
        ├── ModelTimeout          took longer than the limit
        └── ContextTooLong        the prompt does not fit the model
"""

from __future__ import annotations


class RagError(Exception):
    """Base of all errors that Fenestra raises on purpose; ``str()`` is fit to show a person."""


class SettingsError(RagError):
    """A setting or an argument is missing or wrong."""


class DocumentError(RagError):
    """One document cannot be read."""


class UnsupportedFormat(DocumentError):
    """No reader for this kind of file."""


class UnreadableDocument(DocumentError):
    """Damaged, encrypted, or beyond the reader's limits."""


class DocumentTooLarge(DocumentError):
    """More bytes, pages or text than is accepted."""


class NoText(DocumentError):
    """Read, but there is no text in it."""


class StoreError(RagError):
    """The library on disk, or a server that keeps it."""


class EmbeddingMismatch(StoreError):
    """The stored vectors come from another embedding model than the one now in use."""


class IndexUnavailable(StoreError):
    """The vector index cannot be read or written now; the catalog is not concerned."""


class IndexDamaged(IndexUnavailable):
    """The files of the vector index are broken; it can be rebuilt from the catalog."""


class LibraryBusy(StoreError):
    """Another process owns the library."""


class NotFound(StoreError):
    """No such collection or document for this owner."""


class ModelError(RagError):
    """The language model failed."""


class ModelUnavailable(ModelError):
    """No answer, refused, not installed, or a wrong key."""


class ModelTimeout(ModelError):
    """The model took longer than the limit."""


class ContextTooLong(ModelError):
    """The prompt does not fit the model."""
