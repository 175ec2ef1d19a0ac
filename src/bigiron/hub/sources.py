"""What a configuration says is to be watched, as sources."""

from pathlib import Path
from typing import TYPE_CHECKING

from bigiron.config import Config, KubernetesConfig, PrometheusConfig, ScrapeConfig, SlurmConfig
from bigiron.errors import ConfigError
from bigiron.host import Host
from bigiron.ingest import Source

if TYPE_CHECKING:
    from bigiron.ingest.scrape import Target

FIRST_LOOK_S = 86_400.0
"""How far back a log is read that was never followed before."""


def watched(config: Config) -> list[str]:
    """What is watched, in an operator's words."""
    return [
        *(f"Prometheus {p.url}" for p in config.prometheus),
        *(f"exporter page {url}" for s in config.scrape for url in s.targets),
        *(f"kernel log {log.path}" for log in config.kernel_log),
        *(["Slurm"] if config.slurm else []),
        *(["Kubernetes"] if config.kubernetes else []),
    ]


def sources(config: Config, *, history_s: float = 7 * 86_400.0) -> list[Source]:
    """The sources, none of them asked yet. Raises ConfigError, Permanent (a bad address).

    ``history_s`` is how far back ended jobs are read at first, a day at each poll.

    What a source needs is imported only where one is named.
    """
    made = [_prometheus(one) for one in config.prometheus]
    made += [_scrape(one, number) for number, one in enumerate(config.scrape)]
    if config.kernel_log:
        from bigiron.ingest.log_follow import LogFile

        made += [
            LogFile(Path(log.path), node=log.node, since_s=FIRST_LOOK_S, every_s=log.every_s)
            for log in config.kernel_log
        ]
    if config.slurm is not None:
        made.append(_slurm(config.slurm, history_s))
    if config.kubernetes is not None:
        made.append(_kubernetes(config.kubernetes))
    names = [source.name for source in made]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ConfigError("sources", "", f"named twice: {', '.join(sorted(twice))}")
    return made


def _prometheus(config: PrometheusConfig) -> Source:
    from bigiron.ingest.http_client import Access
    from bigiron.ingest.prometheus import PrometheusSource

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
