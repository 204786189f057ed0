"""Settings, read once from the environment (prefix ``FENESTRA_``) and frozen from then on."""

from __future__ import annotations

from pathlib import Path

import platformdirs
from pydantic import AliasChoices, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from rag.errors import SettingsError


class Settings(BaseSettings):
    """What can be set; every field is ``FENESTRA_<NAME>`` in the environment.

    ``OPENAI_API_KEY`` and ``OPENAI_BASE_URL`` are respected as well. With neither an address nor
    a key, the embedded language model answers.
    """

    model_config = SettingsConfigDict(env_prefix="FENESTRA_", frozen=True, extra="ignore")

    home: Path = Field(default_factory=lambda: Path(platformdirs.user_data_dir("fenestra", False)))
    """Where the library lives."""
    cache: Path = Field(
        default_factory=lambda: Path(platformdirs.user_cache_dir("fenestra", False))
    )
    """Where model files joined from their packages are kept; may be deleted at any time."""
    database_url: str | None = None
    """SQLAlchemy URL of the catalog; a SQLite file in ``home`` if unset."""

    embedding_model: str = "all-MiniLM-L6-v2"
    """The packaged model, or the name or path of any sentence-transformers model."""

    base_url: str | None = Field(
        default=None, validation_alias=AliasChoices("FENESTRA_BASE_URL", "OPENAI_BASE_URL")
    )
    api_key: SecretStr | None = Field(
        default=None, validation_alias=AliasChoices("FENESTRA_API_KEY", "OPENAI_API_KEY")
    )
    model: str | None = None
    """Name of the language model; with an endpoint and no name, the server's first model."""
    gguf: Path | None = None
    """Another model file for the embedded server."""
    max_answer_tokens: int = Field(default=400, ge=1)
    temperature: float = Field(default=0.0, ge=0, le=2)
    answer_timeout: float = Field(default=300.0, gt=0)
    """Seconds without any new text after which an answer is given up."""
    price_prompt: float | None = Field(default=None, ge=0)
    """Price of a million prompt tokens; with ``price_completion`` shows what an answer costs."""
    price_completion: float | None = Field(default=None, ge=0)

    context_tokens: int = Field(default=3000, ge=50)
    """Most tokens of passages that one prompt may carry, whatever the strategy."""
    max_file_mb: int = Field(default=200, ge=1)
    """Largest file accepted, in MiB."""
    parse_seconds: float = Field(default=120.0, gt=0)
    """Time limit for reading one file."""
    parse_memory_mb: int = Field(default=4096, ge=256)
    """Memory limit for reading one file, in MiB."""

    @field_validator("base_url", "api_key", "model", "database_url", mode="before")
    @classmethod
    def _blank_is_unset(cls, value: object) -> object:
        return (value.strip() or None) if isinstance(value, str) else value

    @property
    def embedded(self) -> bool:
        """Whether the embedded language model answers."""
        return self.base_url is None and self.api_key is None

    @property
    def default_top_n(self) -> int:
        """3 with the embedded language model, which reads slowly; otherwise 5."""
        return 3 if self.embedded else 5


def load_settings(home: Path | None = None) -> Settings:
    """Read the settings; ``home`` overrides ``FENESTRA_HOME``.

    Raises:
        SettingsError: a value is not acceptable; the message names the variable.
    """
    try:
        settings = Settings() if home is None else Settings(home=home)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        field = "_".join(str(part) for part in first["loc"]).upper()
        name = field if field.startswith(("FENESTRA_", "OPENAI_")) else f"FENESTRA_{field}"
        reason = first["msg"].removeprefix("Value error, ")
        raise SettingsError(f"The setting {name} is not valid: {reason}. Correct it.") from None
    return settings.model_copy(
        update={
            "home": settings.home.expanduser().absolute(),
            "cache": settings.cache.expanduser().absolute(),
        }
    )
