"""A scan as one self-contained HTML page."""

from importlib import resources

from jinja2 import Environment

from bigiron.hub.scan import Row, Scan
from bigiron.model import Health
from bigiron.nodesets import fold
from bigiron.words import advice, chance


def page(scan: Scan) -> str:
    """The page; every text from outside is escaped."""
    template = resources.files("bigiron.hub").joinpath("templates/scan.html").read_text("utf-8")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    flagged = [row for row in scan.rows if row.health is not Health.HEALTHY]
    healthy = fold(row.node for row in scan.rows if row.health is Health.HEALTHY)

    def say(row: Row) -> str:
        return advice(row.action, row.when)

    return environment.from_string(template).render(
        scan=scan,
        flagged=flagged,
        healthy=healthy,
        advice=say,
        chance=chance,
        scheduled=any(row.state for row in flagged),
    )
