"""bigiron.toml: every error names file, key and what was wanted; the example is the truth."""

import re
from pathlib import Path

import pytest

from bigiron.config import Config, example, load, parse
from bigiron.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "key", "wanted"),
    [
        ('[hub]\nturn_s = "soon"', "hub.turn_s", "expected `float`, got `str`"),
        ("[hub]\nturn_s = -1", "hub.turn_s", "expected `float` > 0.0"),
        ("[hub]\nspeed = 1", "hub.speed", "no such setting"),
        ("colour = 1", "colour", "no such setting"),
        ('[prometheus]\nurl = "http://p:9090"', "prometheus", "write [[prometheus]]"),
        ("[kernel_log]\npath = '/x'", "kernel_log", "write [[kernel_log]]"),
        ("[[prometheus]]\nevery_s = 3", "prometheus[0]", "required field `url`"),
        ("[[golden]]\nfacts = {driver_version = {a = 1}}", "golden[0].facts", "expected"),
        ("[hub\n", "", "not TOML"),
    ],
)
def test_an_error_names_file_key_and_what_was_wanted(text: str, key: str, wanted: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text, "site.toml")
    assert caught.value.file == "site.toml"
    assert caught.value.key.startswith(key)
    assert wanted in caught.value.wanted
    assert "site.toml" in str(caught.value)


def test_a_missing_file_and_bad_utf8_are_config_errors(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path / "absent.toml")
    (tmp_path / "bad.toml").write_bytes(b"[hub]\nfolder = '\xff'\n")
    with pytest.raises(ConfigError, match="not UTF-8 at byte 16"):
        load(tmp_path / "bad.toml")


def test_the_example_as_it_stands_is_the_default() -> None:
    assert parse(example(), "example") == Config()


def test_the_example_uncommented_holds_every_setting() -> None:
    settings = re.sub(r"^# (?=[a-z_]+ = |\[)", "", example(), flags=re.MULTILINE)
    settings = settings.replace("[detectors.NAME]", "[detectors.flap]")
    config = parse(settings, "example")
    assert config.prometheus[0].every_s == 15.0
    assert config.slurm is not None
    assert config.kubernetes is not None
    assert config.detectors["flap"].enabled
    assert config.hub == Config().hub
