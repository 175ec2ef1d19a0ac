"""bigiron.toml: every error names file, key and what was wanted; the example is the truth."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from bigiron.cli import root
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


@pytest.mark.parametrize(
    ("text", "key", "wanted"),
    [
        ('[[prometheus]]\nurl = "prometheus:9090"', "prometheus[0]", "not an address"),
        ('[[prometheus]]\nurl = "http://h:99999"', "prometheus[0]", "not an address"),
        ('[[prometheus]]\nurl = "http://h"\nmatchers = "cluster=a"', "prometheus[0]", "matchers"),
        ("[[prometheus]]\nurl = 'http://h'\nmatchers = '{a=\"b\"}'", "prometheus[0]", "braces"),
        ('[[prometheus]]\nurl = "http://h"\nca_file = "/absent"', "prometheus[0]", "/absent"),
        ('[[scrape]]\ntargets = ["n1=http://n1:1/m", "n2"]', "scrape[0]", "n2: not an address"),
        ('[[prometheus]]\nurl = "http://h"\n[[prometheus]]\nurl = "http://h"', "", "named twice"),
        ("[detectors.flaps]\nenabled = false", "detectors.flaps", "no such detector"),
        ("[[golden]]\nfacts = {mtu = []}", "golden[0].facts.mtu", "at least one"),
        ("[hub]\nwindow_s = 60", "hub.fresh_s", "at most hub.window_s"),
    ],
)
def test_what_cannot_be_meant_is_said_before_the_hub_starts(
    tmp_path: Path, text: str, key: str, wanted: str
) -> None:
    file = tmp_path / "bigiron.toml"
    file.write_text(text)
    for command in (["config", "check", str(file)], ["scan", "--config", str(file)]):
        result = CliRunner().invoke(root, command, standalone_mode=False)
        assert isinstance(result.exception, ConfigError), command
        assert result.exception.file == str(file)
        assert result.exception.key == key
        assert wanted in str(result.exception)


def test_what_an_error_quotes_does_not_reach_the_terminal_as_it_is(tmp_path: Path) -> None:
    table = "\\u001b]0;owned\\u0007" + "x" * 2000
    (tmp_path / "bigiron.toml").write_text(f'["{table}"]\n')
    (tmp_path / "odd\x1b[31m.toml").write_text("[hub")
    for file in sorted(tmp_path.iterdir()):
        command = [sys.executable, "-m", "bigiron", "config", "check", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 4
        assert done.stderr.rstrip("\n").isprintable()
        assert len(done.stderr) < 1100


def test_good_settings_are_good(tmp_path: Path) -> None:
    file = tmp_path / "bigiron.toml"
    file.write_text(
        "[[prometheus]]\nurl = 'http://h:9090'\nmatchers = 'cluster=\"a\", site=~\"b.*\",'\n"
        "[[scrape]]\ntargets = ['n1=http://n1:9400/metrics?a=b']\n",
        encoding="utf-8-sig",
    )
    result = CliRunner().invoke(root, ["config", "check", str(file)], standalone_mode=False)
    assert result.exception is None
    assert "good. Watches Prometheus http://h:9090" in result.output
