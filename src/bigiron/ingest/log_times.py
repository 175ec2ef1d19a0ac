"""Time stamps as log writers print them, as aware datetimes in UTC.

A stamp without a zone is taken as UTC; whoever reads it says so once, in a Note. A stamp without
a year gets the latest year that does not put it into the future of the document.
"""

import calendar
import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

MONTHS = {name: i for i, name in enumerate(calendar.month_abbr) if name}
MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"

AHEAD = timedelta(hours=14)
"""How far a clock without a zone may run ahead of UTC (UTC+14 is the largest offset in use)."""

_FRACTION = re.compile(r"[.,](\d+)")


def iso(text: str) -> tuple[datetime, bool] | None:
    """The time of an RFC 3339 or ISO 8601 stamp and whether it named its zone; None if it is none.

    Both decimal signs are read (``dmesg --time-format iso`` writes a comma), any number of
    digits after it, and offsets with and without a colon.
    """
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return _iso_uneven(text)
    return _as_utc(time)


def _iso_uneven(text: str) -> tuple[datetime, bool] | None:
    """Fractions of one, two, four or five digits, which ``fromisoformat`` refuses."""
    match = _FRACTION.search(text)
    if match is None:
        return None
    digits = f"{match[1]:0<6}"[:6]
    try:
        return _as_utc(
            datetime.fromisoformat(f"{text[: match.start()]}.{digits}{text[match.end() :]}")
        )
    except ValueError:
        return None


def _as_utc(time: datetime) -> tuple[datetime, bool] | None:
    if time.tzinfo is None:
        return time.replace(tzinfo=UTC), False
    try:
        return time.astimezone(UTC), True
    except OverflowError:
        return None


@lru_cache(maxsize=1024)
def with_year(month: str, day: str, clock: str, year: str) -> datetime | None:
    """``Feb``, ``23``, ``16:24:18``, ``2025`` as UTC; None if there is no such time."""
    try:
        hour, minute, second = clock.split(":")
        return datetime(
            int(year),
            MONTHS[month],
            int(day),
            int(hour),
            int(minute),
            min(int(second), 59),  # a leap second
            tzinfo=UTC,
        )
    except (ValueError, KeyError):
        return None


@lru_cache(maxsize=1024)
def without_year(month: str, day: str, clock: str, now: datetime) -> datetime | None:
    """``Jul``, ``02``, ``07:10:02`` in the latest year in which it is not after ``now``.

    A clock that runs in a zone east of UTC writes up to 14 hours ahead of it: such a stamp keeps
    the year of ``now`` and is set to ``now``, since it cannot lie in the future.
    """
    for year in range((now + AHEAD).year, now.year - 9, -1):  # 29 February: back to a leap year
        time = with_year(month, day, clock, str(year))
        if time is not None and time <= now + AHEAD:
            return min(time, now)
    return None


def add_fraction(time: datetime | None, digits: str | None) -> datetime | None:
    """The same second plus a fraction given by its decimal digits."""
    if time is None or not digits:
        return time
    return time.replace(microsecond=int(f"{digits:0<6}"[:6]))


def epoch_us(text: object) -> datetime | None:
    """Microseconds since the epoch, as journald writes them (a decimal string)."""
    try:
        return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=int(str(text)))
    except (ValueError, OverflowError):
        return None
