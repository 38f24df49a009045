"""What the user says of single models, in the file."""

from pathlib import Path

import pytest

from acp_bridge.config import Config, load
from acp_bridge.errors import ConfigError
from acp_bridge.options import ModelSettings


def loaded(folder: Path, text: str, **environ: str) -> Config:
    path = folder / "config.toml"
    path.write_text(text)
    return load({"ACP_BRIDGE_CONFIG": str(path), **environ})


def test_a_table_of_models_offers_them_and_says_of_each_what_is_not_known(tmp_path: Path) -> None:
    config = loaded(
        tmp_path,
        '[models."openai:kimi-k2.5"]\nwindow = 262144\nimages = true\nthinking = "high"\n[models."ollama:m:7b"]\n',
    )
    assert config.models == ("openai:kimi-k2.5", "ollama:m:7b")
    assert config.model_settings == {
        "openai:kimi-k2.5": ModelSettings(window=262_144, images=True, thinking="high"),
        "ollama:m:7b": ModelSettings(),
    }


def test_a_list_of_models_offers_them_and_says_nothing(tmp_path: Path) -> None:
    config = loaded(tmp_path, 'models = ["openai:a"]\n')
    assert (config.models, dict(config.model_settings)) == (("openai:a",), {})


def test_the_environment_names_what_is_offered_and_leaves_what_is_said(tmp_path: Path) -> None:
    config = loaded(tmp_path, '[models."openai:a"]\nwindow = 9\n', ACP_BRIDGE_MODELS="openai:b, openai:c")
    assert config.models == ("openai:b", "openai:c")
    assert config.model_settings["openai:a"].window == 9


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[models."openai:a"]\nwidow = 9\n', "'widow' in [models.\"openai:a\"] is not known; the nearest is 'window'"),
        ('[models."openai:a"]\nwindow = "9"\n', 'window in [models."openai:a"] must be a whole number'),
        ('[models."openai:a"]\nwindow = 0\n', 'window in [models."openai:a"] must be more than 0'),
        ('[models."openai:a"]\nimages = 1\n', 'images in [models."openai:a"] must be true or false'),
        (
            '[models."openai:a"]\nthinking = "hard"\n',
            "thinking in [models.\"openai:a\"] must be one of off, low, medium, high, not 'hard'",
        ),
        ('[models]\n"openai:a" = 9\n', "must be a table of window, images, thinking"),
        ('[model."openai:a"]\nwindow = 9\n', "is not known; the nearest is"),
    ],
)
def test_what_cannot_be_said_of_a_model_is_refused_with_what_can(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        loaded(tmp_path, text)
    assert said in str(refused.value)
