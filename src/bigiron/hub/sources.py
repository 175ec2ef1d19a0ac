"""What a configuration says is to be watched, as sources."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from bigiron.config import (
    Config,
    KernelLogConfig,
    KubernetesConfig,
    PrometheusConfig,
    ScrapeConfig,
    SlurmConfig,
)
from bigiron.errors import ConfigError, Permanent
from bigiron.host import Host
from bigiron.ingest import Source

if TYPE_CHECKING:
    from bigiron.ingest.scrape import Target

FIRST_LOOK_S = 86_400.0
"""How far back a log is read that was never followed before."""

_STRING = r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)"""
_MATCHER = rf"\s*[A-Za-z_]\w*\s*(?:=~|!~|!=|=)\s*{_STRING}\s*"
_MATCHERS = re.compile(rf"{_MATCHER}(?:,{_MATCHER})*,?\s*")

T = TypeVar("T")


def watched(config: Config) -> list[str]:
    """What is watched, in an operator's words."""
    return [
        *(f"Prometheus {p.url}" for p in config.prometheus),
        *(f"exporter page {url}" for s in config.scrape for url in s.targets),
        *(f"kernel log {log.path}" for log in config.kernel_log),
        *(["Slurm"] if config.slurm else []),
        *(["Kubernetes"] if config.kubernetes else []),
    ]


def sources(
    config: Config, *, history_s: float = 7 * 86_400.0, file: str = "configuration"
) -> list[Source]:
    """The sources, none of them asked yet. Raises ConfigError naming ``file`` and the key.

    ``history_s`` is how far back ended jobs are read at first, a day at each poll.

    What a source needs is imported only where one is named.
    """
    made = list(_each(file, "prometheus", config.prometheus, _prometheus))
    pages = list(enumerate(config.scrape))
    made += _each(file, "scrape", pages, lambda numbered: _scrape(numbered[1], numbered[0]))
    made += _each(file, "kernel_log", config.kernel_log, _log)
    if config.slurm is not None:
        made.append(_slurm(config.slurm, history_s))
    if config.kubernetes is not None:
        made.append(_kubernetes(config.kubernetes))
    names = [source.name for source in made]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ConfigError(file, "", f"named twice: {', '.join(sorted(twice))}")
    return made


def _each(file: str, key: str, every: Sequence[T], make: Callable[[T], Source]) -> Iterator[Source]:
    for number, one in enumerate(every):
        try:
            yield make(one)
        except Permanent as error:
            raise ConfigError(file, f"{key}[{number}]", str(error)) from error


def _log(config: KernelLogConfig) -> Source:
    from bigiron.ingest.log_follow import LogFile

    path = Path(config.path)
    return LogFile(path, node=config.node, since_s=FIRST_LOOK_S, every_s=config.every_s)


def _prometheus(config: PrometheusConfig) -> Source:
    from bigiron.ingest.http_client import Access
    from bigiron.ingest.prometheus import PrometheusSource

    if config.matchers and not _MATCHERS.fullmatch(config.matchers):
        wanted = 'matchers such as cluster="a",site=~"b.*", without braces'
        raise Permanent(f"{config.matchers}: wanted {wanted}")
    if config.ca_file and not Path(config.ca_file).is_file():
        raise Permanent(f"{config.ca_file}: wanted a file with the CA's certificate")
    return PrometheusSource(
        config.url,
        config.every_s,
        access=Access(token=_token(config.token_file), ca_file=config.ca_file),
        matchers=config.matchers,
        timeout_s=config.timeout_s,
    )


def _token(file: str) -> str:
    if not file:
        return ""
    try:
        return Path(file).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(file, "", f"wanted a file that holds a bearer token: {error}") from error


def _scrape(config: ScrapeConfig, number: int) -> Source:
    from bigiron.ingest.scrape import ScrapeSource

    return ScrapeSource(
        [_target(text) for text in config.targets],
        config.every_s,
        name=f"scrape {number}" if number else "scrape",
        timeout_s=config.timeout_s,
    )


def _target(text: str) -> "Target":
    """``URL`` or ``NODE=URL``."""
    from bigiron.ingest.scrape import Target

    node, equals, url = text.partition("=")
    return Target(url, node) if equals and "/" not in node else Target(text)


def _slurm(config: SlurmConfig, history_s: float) -> Source:
    from bigiron.ingest.slurm import SlurmSource

    return SlurmSource(
        Host(path=config.path, env={"SLURM_CONF": config.conf} if config.conf else {}),
        every_s=config.every_s,
        timeout_s=config.timeout_s,
        jobs=config.jobs,
        history_s=history_s,
    )


def _kubernetes(config: KubernetesConfig) -> Source:
    from bigiron.ingest.kubernetes_live import KubernetesSource

    return KubernetesSource(
        every_s=config.every_s,
        kubeconfig=config.kubeconfig,
        context=config.context,
        url=config.url,
    )
