"""The command line: one module a command group, imported only when it is asked for."""

import importlib
import sys
from typing import NamedTuple

import click

from bigiron import __version__
from bigiron.errors import BigironError, ConfigError

SAID = 1000
"""Characters of an error that are shown."""

EXIT_HEALTHY, EXIT_WARNING, EXIT_CRITICAL, EXIT_NOTHING, EXIT_USAGE = range(5)


class Entry(NamedTuple):
    """Where a command lives and its one-line help, so that --help imports nothing."""

    module: str
    help: str


COMMANDS: dict[str, Entry] = {
    "inspect": Entry("inspect", "Say what is wrong in log files, tool outputs or a bundle."),
    "scan": Entry("scan", "One look at a live fleet: which nodes are in trouble, why, what to do."),
    "agent": Entry("agent", "What this node's own hardware and configuration say."),
    "hub": Entry("hub", "Watch a fleet continuously, in shadow mode."),
    "nodes": Entry("nodes", "How every node stands, worst first; alike ones share a line."),
    "findings": Entry("findings", "What was found wrong with which device, node or group."),
    "events": Entry("events", "What logs and exporters said happened."),
    "actions": Entry("actions", "What should be done to which node, or is held back."),
    "why": Entry("why", "Why a node stands as it does, down to the raw log line."),
    "timeline": Entry("timeline", "Everything that happened to one node, in order."),
    "close": Entry("close", "Say that a finding is over, and why."),
    "golden": Entry("golden", "What nodes should be: derive, declare, show, compare."),
    "demo": Entry("demo", "A simulated fleet: faults injected, found and explained."),
    "sim": Entry("sim", "Record a simulated fleet, to try things on."),
    "replay": Entry("replay", "Run the whole pipeline over a recorded fleet's history."),
    "score": Entry("score", "Compare what a replay found with what really happened."),
    "config": Entry("config", "Show an example bigiron.toml, or check one."),
}


class LazyGroup(click.Group):
    """Loads a command's module when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The names, in the order in which a person meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command, imported."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module = importlib.import_module(f"bigiron.cli.{entry.module}")
        command = getattr(module, cmd_name.replace("-", "_"))
        if not isinstance(command, click.Command):
            raise TypeError(f"bigiron.cli.{entry.module}.{cmd_name} is not a command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The command list, from the table: nothing is imported for it."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="bigiron")
def root() -> None:
    """Runs a fleet of GPU nodes like mainframes.

    Start with `bigiron inspect FILE` (a log in hand), `bigiron scan --prometheus URL` (one look
    at a live fleet, reading only) or `bigiron hub` (the same, continuously).

    Exit code: `inspect` and `scan` end with 0 healthy, 1 warning, 2 critical, 3 nothing
    recognised or reached, 4 wrong usage. The others end with 0, 3 if what was asked for is not
    there, 4 for wrong usage or configuration.
    """


def main() -> None:
    """Entry point: errors raised on purpose become one line and an exit code."""
    try:
        status = root.main(standalone_mode=False)
    except (click.exceptions.Abort, KeyboardInterrupt):
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(EXIT_USAGE)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "bigiron":
            raise
        click.echo(
            f"bigiron: this needs {error.name}, which comes with the extra 'hub': "
            "pip install 'bigiron[hub]'",
            err=True,
        )
        sys.exit(EXIT_USAGE)
    except ConfigError as error:
        _say(error)
        sys.exit(EXIT_USAGE)
    except BigironError as error:
        _say(error)
        sys.exit(EXIT_NOTHING)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    sys.exit(status if isinstance(status, int) else 0)


def _say(error: BigironError) -> None:
    """One line: what went wrong may quote a file or a server, that is anything at all."""
    from bigiron.cli.table import printable

    text = printable(str(error))
    click.echo(f"bigiron: {text[:SAID]}{'...' if len(text) > SAID else ''}", err=True)
