"""Settings: read from the environment, frozen, and explained when they are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from rag.errors import SettingsError
from rag.settings import load_settings


def test_with_nothing_set_the_embedded_model_answers(home: Path) -> None:
    settings = load_settings()
    assert settings.embedded
    assert settings.default_top_n == 3
    assert settings.home == home


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "OPENAI_BASE_URL", "FENESTRA_BASE_URL"])
@pytest.mark.parametrize("value", ["", "  ", "\n"])
def test_blank_is_unset(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    assert load_settings().embedded


def test_an_endpoint_replaces_the_embedded_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", " http://127.0.0.1:1/v1\n")
    settings = load_settings()
    assert not settings.embedded
    assert settings.base_url == "http://127.0.0.1:1/v1"
    assert settings.default_top_n == 5


def test_fenestra_s_own_name_comes_before_openai_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-theirs")
    monkeypatch.setenv("FENESTRA_API_KEY", " sk-ours\n")
    settings = load_settings()
    assert settings.api_key is not None
    assert settings.api_key.get_secret_value() == "sk-ours"


def test_a_key_is_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    settings = load_settings()
    assert "very-secret" not in f"{settings!r} {settings} {settings.model_dump()}"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("FENESTRA_TEMPERATURE", "9"),
        ("FENESTRA_MAX_ANSWER_TOKENS", "0"),
        ("FENESTRA_CONTEXT_TOKENS", "many"),
        ("FENESTRA_PRICE_PROMPT", "-1"),
        ("FENESTRA_PARSE_SECONDS", "0"),
    ],
)
def test_a_value_that_does_not_fit_names_its_variable(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=f"{name}.*Correct it"):
        load_settings()


def test_settings_are_frozen() -> None:
    settings = load_settings()
    with pytest.raises(ValidationError):
        settings.temperature = 1.0  # type: ignore[misc]


def test_a_home_is_made_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_settings(Path("here")).home == tmp_path / "here"
    assert load_settings(Path("~/there")).home == Path.home() / "there"
