"""bigiron.toml -> one frozen Config.

Every setting is a field with a description, limits and a default; the commented example and
docs/configuration.md are made from them (``example``), so they cannot drift. An error names the
file, the key and what was wanted.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from datetime import date, time
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import msgspec
from msgspec import Meta

from bigiron.errors import ConfigError
from bigiron.model import FactValue


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of settings; an unknown key is an error, never ignored."""


class HubConfig(Section, frozen=True):
    """The server itself."""

    folder: Annotated[str, Meta(description="Where ledger and samples are kept.")] = (
        "/var/lib/bigiron"
    )
    turn_s: Annotated[
        float,
        Meta(gt=0, le=60, description="Seconds between two judgements when nothing new arrives."),
    ] = 0.5
    window_s: Annotated[
        float, Meta(ge=60, le=604_800, description="Seconds of samples held in memory for judging.")
    ] = 1800.0
    fresh_s: Annotated[
        float, Meta(gt=0, le=86_400, description="A sample older than this many seconds is stale.")
    ] = 180.0
    sustain_s: Annotated[
        float,
        Meta(ge=0, le=86_400, description="Seconds a gauge must stay bad before it is believed."),
    ] = 600.0
    false_suspects: Annotated[
        float,
        Meta(
            gt=0,
            le=100,
            description="Healthy nodes that peers, own past and rates may come to suspect, "
            "per 1,000 node-days: the more, the sooner small faults are found.",
        ),
    ] = 0.5
    event_days: Annotated[
        float, Meta(gt=0, le=365, description="Days of events kept in memory for judging.")
    ] = 7.0
    hold_s: Annotated[
        float,
        Meta(ge=0, le=86_400, description="Seconds without anything bad before a node is better."),
    ] = 3600.0


class SamplesConfig(Section, frozen=True):
    """The Parquet samples beside the ledger."""

    enabled: Annotated[bool, Meta(description="Keep samples at all.")] = True
    flush_s: Annotated[
        float, Meta(gt=0, le=3600, description="Seconds until buffered samples are on disk.")
    ] = 60.0
    keep_days: Annotated[
        float, Meta(gt=0, le=3650, description="Days after which samples are removed.")
    ] = 30.0
    keep_bytes: Annotated[
        int, Meta(ge=1_000_000, description="Bytes past which the oldest samples are removed.")
    ] = 20_000_000_000


class PrometheusConfig(Section, frozen=True):
    """A Prometheus-compatible server that is asked (Prometheus, VictoriaMetrics, Mimir ...)."""

    url: Annotated[str, Meta(description="Base URL, such as http://prometheus:9090.")]
    every_s: Annotated[float, Meta(gt=0, le=3600, description="Seconds between two polls.")] = 15.0
    timeout_s: Annotated[float, Meta(gt=0, le=300, description="Longest wait for an answer.")] = (
        10.0
    )
    matchers: Annotated[
        str, Meta(description='Label matchers that narrow the series, such as cluster="a".')
    ] = ""
    token_file: Annotated[str, Meta(description="File that holds a bearer token.")] = ""
    ca_file: Annotated[str, Meta(description="PEM file of the CA that signed the server.")] = ""


class ScrapeConfig(Section, frozen=True):
    """Exporter pages fetched directly, where no Prometheus runs."""

    targets: Annotated[
        tuple[str, ...], Meta(description="Exporter pages, each as URL or NODE=URL.")
    ]
    every_s: Annotated[float, Meta(gt=0, le=3600, description="Seconds between two scrapes.")] = (
        15.0
    )
    timeout_s: Annotated[float, Meta(gt=0, le=300, description="Longest wait for a page.")] = 10.0


class KernelLogConfig(Section, frozen=True):
    """A growing log file: one host's, or a collector's file of many hosts."""

    path: Annotated[str, Meta(description="The file that is followed, across rotations.")]
    node: Annotated[str, Meta(description="The host's name, where the lines do not tell it.")] = ""
    every_s: Annotated[float, Meta(gt=0, le=3600, description="Seconds between two looks.")] = 0.25


class SlurmConfig(Section, frozen=True):
    """A Slurm cluster, asked through its own commands. Reading only."""

    every_s: Annotated[float, Meta(gt=0, le=3600, description="Seconds between two looks.")] = 30.0
    timeout_s: Annotated[float, Meta(gt=0, le=300, description="Longest wait for a command.")] = (
        20.0
    )
    jobs: Annotated[bool, Meta(description="Read job history with sacct as well.")] = True
    path: Annotated[str, Meta(description="Directories that hold the commands, joined by ':'.")] = (
        "/usr/local/bin:/usr/bin:/bin:/opt/slurm/bin"
    )
    conf: Annotated[
        str, Meta(description="slurm.conf, handed to the commands as SLURM_CONF; empty: theirs.")
    ] = ""


class KubernetesConfig(Section, frozen=True):
    """A Kubernetes cluster, asked through its API. Reading only."""

    every_s: Annotated[float, Meta(gt=0, le=3600, description="Seconds between two looks.")] = 30.0
    kubeconfig: Annotated[
        str, Meta(description="kubeconfig file; empty: in-cluster, KUBECONFIG or ~/.kube/config.")
    ] = ""
    context: Annotated[str, Meta(description="Context of the kubeconfig; empty: its current.")] = ""
    url: Annotated[
        str, Meta(description="Address of an API server that needs no kubeconfig, or a proxy's.")
    ] = ""


class PolicyConfig(Section, frozen=True):
    """Limits on what may be asked for. Actions are shadow only: written down, not carried out."""

    max_out_count: Annotated[
        int, Meta(ge=0, description="Most nodes out at once, for whatever reason.")
    ] = 8
    max_out_share: Annotated[
        float, Meta(ge=0, le=1, description="Largest share of the fleet out at once.")
    ] = 0.05
    breaker_share: Annotated[
        float, Meta(gt=0, le=1, description="Share of nodes newly flagged at once that holds all.")
    ] = 0.30
    breaker_count: Annotated[
        int, Meta(ge=1, description="The breaker needs at least this many nodes.")
    ] = 5


class DetectorConfig(Section, frozen=True):
    """One detector's switches."""

    enabled: Annotated[bool, Meta(description="Whether it runs.")] = True


class GoldenConfig(Section, frozen=True):
    """What nodes of a SKU (and role) are declared to be: fact name -> value or allowed values."""

    facts: Annotated[
        Mapping[str, FactValue | list[FactValue]],
        Meta(description="Fact name -> the value, or a list of allowed values."),
    ]
    sku: Annotated[str, Meta(description="The SKU it holds for; empty: every one.")] = ""
    role: Annotated[str, Meta(description="The role it holds for; empty: every one.")] = ""
    kind: Annotated[
        str, Meta(description="The parts it holds for: gpu, nic ..., node; empty: all of them.")
    ] = ""
    model: Annotated[str, Meta(description="The model of part; empty: every one.")] = ""


class GoldenExceptionConfig(Section, frozen=True):
    """What some nodes may be for a while, whatever is declared or the others are."""

    nodes: Annotated[str, Meta(description="Nodes, folded: gpu[001-004].")]
    fact: Annotated[str, Meta(description="The fact's name, such as driver_version.")]
    until: Annotated[
        str, Meta(description="When it ends, RFC 3339: 2027-01-31T00:00:00Z. Then it is drift.")
    ]
    why: Annotated[str, Meta(description="Why, for whoever reads it later.")]
    value: Annotated[
        FactValue | list[FactValue],
        Meta(description="The value, or a list of values; empty: any."),
    ] = ""


class CollectorConfig(Section, frozen=True):
    """One collector's switches, by its name; ``kmsg``, the kernel log, is one as well."""

    enabled: Annotated[bool, Meta(description="Whether it runs.")] = True
    every_s: Annotated[
        float, Meta(ge=0, le=86_400, description="Seconds between two looks; 0: its own.")
    ] = 0.0


class ExporterConfig(Section, frozen=True):
    """An exporter on the node, scraped on loopback; without any, the usual ports are tried."""

    job: Annotated[str, Meta(description="What it is called, such as node.")]
    url: Annotated[str, Meta(description="Its page, such as http://127.0.0.1:9100/metrics.")]


class ExecutableConfig(Section, frozen=True):
    """A check of the site's own, run on the node: NHC, a Nagios plugin."""

    name: Annotated[str, Meta(description="What it is called.")]
    argv: Annotated[
        tuple[str, ...], Meta(description="The program by its absolute path, and its arguments.")
    ]
    every_s: Annotated[
        float, Meta(ge=1, le=86_400, description="Seconds between two runs, at least.")
    ] = 300.0
    timeout_s: Annotated[float, Meta(gt=0, le=300, description="Longest it may take.")] = 30.0
    device: Annotated[str, Meta(description="The part it looks at; empty: the node.")] = ""
    code: Annotated[str, Meta(description="The catalogued fault that a failure of it is.")] = ""


class AgentConfig(Section, frozen=True):
    """The agent on a node. Checked, not used yet: so far the agent only looks once."""

    hub: Annotated[
        str, Meta(description="Base URL of the hub, such as https://hub:8443; empty: none.")
    ] = ""
    node: Annotated[str, Meta(description="This node's name; empty: its host name.")] = ""
    folder: Annotated[str, Meta(description="Where its key and its spool are kept.")] = (
        "/var/lib/bigiron-agent"
    )
    token_file: Annotated[
        str, Meta(description="File of the one-time token with which it enrols at the hub.")
    ] = ""
    ca_file: Annotated[str, Meta(description="PEM file of the CA that signed the hub.")] = ""
    every_s: Annotated[
        float, Meta(gt=0, le=300, description="Seconds of samples that go to the hub together.")
    ] = 30.0
    spool_bytes: Annotated[
        int,
        Meta(ge=1_000_000, le=100_000_000_000, description="What waits for the hub, at most."),
    ] = 256_000_000
    metrics: Annotated[
        str, Meta(description="Address of the page for Prometheus; empty: there is none.")
    ] = "127.0.0.1:9402"
    gate_file: Annotated[
        str, Meta(description="What `bigiron gate` reads: what stands against new work.")
    ] = "/run/bigiron/gate.json"
    textfiles: Annotated[
        tuple[str, ...],
        Meta(description="Folders of *.prom files; empty: where node_exporter has them."),
    ] = ()
    collectors: Mapping[str, CollectorConfig] = {}
    exporters: tuple[ExporterConfig, ...] = ()
    executables: tuple[ExecutableConfig, ...] = ()


class Config(Section, frozen=True):
    """Everything that can be set."""

    hub: HubConfig = HubConfig()
    agent: AgentConfig = AgentConfig()
    samples: SamplesConfig = SamplesConfig()
    prometheus: tuple[PrometheusConfig, ...] = ()
    scrape: tuple[ScrapeConfig, ...] = ()
    kernel_log: tuple[KernelLogConfig, ...] = ()
    slurm: SlurmConfig | None = None
    kubernetes: KubernetesConfig | None = None
    policy: PolicyConfig = PolicyConfig()
    golden: tuple[GoldenConfig, ...] = ()
    golden_exception: tuple[GoldenExceptionConfig, ...] = ()
    detectors: Mapping[str, DetectorConfig] = {}
    faults: Annotated[
        tuple[str, ...], Meta(description="Files of faults that add to or override the catalogue.")
    ] = ()
    hazard: Annotated[
        str, Meta(description="File of hazard weights fitted to this site; empty: those that ship.")
    ] = ""


def load(file: Path) -> Config:
    """The configuration of a file. Raises ConfigError naming file, key and what was wanted."""
    try:
        text = file.read_text("utf-8-sig")
    except OSError as error:
        raise ConfigError(str(file), "", f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(str(file), "", f"not UTF-8 at byte {error.start}") from error
    config = parse(text, str(file))
    if config.hazard:
        config = msgspec.structs.replace(config, hazard=str(file.parent / config.hazard))
    return config


def parse(text: str, file: str) -> Config:
    """The configuration of a TOML text. Raises ConfigError."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(file, "", f"not TOML: {error}") from error
    try:
        return msgspec.convert(_told(data), Config)
    except msgspec.ValidationError as error:
        key, wanted = _explain(str(error))
        raise ConfigError(file, key, wanted) from error


def _told(value: Any) -> Any:
    """A TOML value with its dates as the text they were written as: all times are texts here."""
    if isinstance(value, dict):
        return {key: _told(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_told(inner) for inner in value]
    return value.isoformat() if isinstance(value, date | time) else value


_UNKNOWN = re.compile(r"Object contains unknown field `(?P<field>[^`]+)`")
_NO_ARRAY = re.compile(r"Expected `array`, got `object`")
_AT = re.compile(r"^(?P<what>.*?)(?: - at `(?P<path>[^`]+)`)?$", re.DOTALL)


def _explain(message: str) -> tuple[str, str]:
    """msgspec's sentence as (dotted key, what was wanted)."""
    match = _AT.match(message)
    what, path = (match["what"], match["path"] or "") if match else (message, "")
    key = path.removeprefix("$").lstrip(".")
    if _NO_ARRAY.match(what) and key in {name for name, _, many in _tables() if many}:
        return key, f"may stand several times: write [[{key}]], not [{key}]"
    unknown = _UNKNOWN.match(what)
    if unknown:
        key = f"{key}.{unknown['field']}".lstrip(".")
        return key, "no such setting; see `bigiron config example`"
    return key, what[:1].lower() + what[1:]


def example() -> str:
    """A bigiron.toml with every setting, its meaning and its default, all commented out."""
    lines = [
        "# bigiron.toml: every setting, its meaning and its default.",
        "# Remove the '#' before what you want to change.",
        "",
        *_settings(Config),
    ]
    for name, kind, many in _tables():
        header = f"[[{name}]]" if many else f"[{name}]"
        lines += ["", f"# {(kind.__doc__ or '').splitlines()[0]}", f"# {header}", *_settings(kind)]
    return "\n".join(lines) + "\n"


def _tables(
    section: type[Section] = Config, before: str = ""
) -> Iterator[tuple[str, type[Section], bool]]:
    """(name, type, repeatable) of each table of Config, and of those within."""
    for item in msgspec.structs.fields(section):
        kinds = [k for k in _inside(item.type) if isinstance(k, type) and issubclass(k, Section)]
        for kind in kinds:
            many = get_origin(item.type) is tuple
            mapping = get_origin(item.type) is Mapping
            yield f"{before}{item.name}.NAME" if mapping else f"{before}{item.name}", kind, many
            yield from _tables(kind, f"{before}{item.name}.")


def _inside(kind: Any) -> list[Any]:
    return [kind, *(inner for arg in get_args(kind) for inner in _inside(arg))]


def _settings(kind: type[Section]) -> list[str]:
    """Those of one table, without the tables within."""
    lines: list[str] = []
    for item in msgspec.structs.fields(kind):
        if any(isinstance(k, type) and issubclass(k, Section) for k in _inside(item.type)):
            continue
        notes = (arg for arg in get_args(item.type) if isinstance(arg, Meta))
        lines += [f"# {note.description}" for note in notes if note.description]
        lines.append(f"# {item.name} = {_shown(item)}")
    return lines


def _shown(item: msgspec.structs.FieldInfo) -> str:
    default = item.default
    if default is msgspec.NODEFAULT:
        origins = {get_origin(kind) for kind in _inside(item.type)}
        blank = "{}" if Mapping in origins or dict in origins else '"..."'
        return f"{'[]' if tuple in origins else blank}  # required"
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, str):
        return msgspec.json.encode(default).decode()
    if isinstance(default, tuple):
        return "[]"
    return str(default)
