"""The service life of Titan's GPUs as person-period rows: who was at risk, where, and its past.

Every feature of a period rests on what was known when it began.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from bigiron.analyze.hazard_model import log_rate_ratio

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

DAY_S = 86_400.0
PERIOD_D = 30.0
START = datetime(2014, 1, 22, tzinfo=UTC)
"""The inventory begins the day before."""

PLACE = r"c(?<col>\d+)-(?<row>\d+)c(?<cage>\d+)s(?<slot>\d+)n(?<node>\d+)"
COLS, ROWS, CAGES, SLOTS, NODES = 25, 8, 3, 8, 4
WINDOWS = {"90d": 3, "1y": 12, "ever": 10_000}
"""Periods over which a group's failures are counted."""


@dataclass(frozen=True, slots=True)
class Rows:
    """One period: the parts at risk when it begins. ``watched`` is the share of it they stayed."""

    part: Ints
    features: Floats
    failed: Flags
    watched: Floats


@dataclass(frozen=True, slots=True)
class Outcome:
    """Failed or not, whether that is known, and what a known one stands for.

    ``weight`` is the inverse of the chance to have been left in service until then, among parts of
    the same age group and cage (inverse probability of censoring; H. Uno et al., JASA 102, 2007).
    """

    failed: Flags
    known: Flags
    weight: Floats


class History:
    """All stints and events. Parts are numbered in the order in which they were made."""

    def __init__(self, folder: Path) -> None:
        table = _table(folder / "gc_full.csv.gz")
        self.serials = _by_manufacture(table["SN"].unique().to_list())
        number = {serial: i for i, serial in enumerate(self.serials)}
        stints = table.filter(pl.col("insert").is_not_null())
        events = table.filter(pl.col("event").is_not_null())
        self.part = _numbers(stints, number)
        self.insert, self.remove = stints["insert"].to_numpy(), stints["remove"].to_numpy()
        self.place = stints.select("col", "row", "cage", "slot", "node").to_numpy().astype(np.int64)
        self.first = np.full(len(number), np.inf)
        np.minimum.at(self.first, self.part, self.insert)
        begin = START.timestamp() / DAY_S
        self.grid = np.arange(begin, float(self.remove.max()) - PERIOD_D, PERIOD_D)
        self.events = np.zeros((len(self.grid), len(number)), np.int64)
        period = ((events["remove"].to_numpy() - begin) // PERIOD_D).astype(int)
        inside = (period >= 0) & (period < len(self.grid))
        np.add.at(self.events, (period[inside], _numbers(events, number)[inside]), 1)
        self.made = np.array([(int(s[4:6]), int(s[2:4])) for s in self.serials])
        self.names: tuple[str, ...] = ()
        self.rows = self._all_rows()

    def outcome(self, period: int, periods: int) -> Outcome:
        """What became of the parts of ``rows[period]`` within so many periods."""
        part, stint = self._active(period)
        happened = self.events[period : period + periods, part] > 0
        failed = happened.any(axis=0)
        failed_in = np.where(failed, happened.argmax(axis=0), periods)
        stayed = (self.remove[stint] - self.grid[period] + 1e-6) / PERIOD_D
        left_in = np.where(failed, periods, np.minimum(periods, stayed.astype(np.int64)))
        known = failed | (left_in >= periods)
        stratum = (self.made[part, 0] <= 14) * CAGES + self.place[stint, 2]
        weight = np.zeros(len(part))
        for one in np.unique(stratum):
            inside = stratum == one
            weight[inside] = _weights(failed_in[inside], left_in[inside], periods)
        return Outcome(failed, known, np.where(known, weight, 0.0))

    def day(self, period: int) -> str:
        """When a period begins."""
        return f"{datetime.fromtimestamp(self.grid[period] * DAY_S, UTC):%Y-%m-%d}"

    def _active(self, period: int) -> tuple[Ints, Ints]:
        """Parts in service when a period begins, and their stints."""
        time = self.grid[period]
        stint = np.nonzero((self.insert <= time) & (self.remove > time))[0]
        order = np.argsort(self.part[stint], kind="stable")
        return self.part[stint][order], stint[order]

    def _all_rows(self) -> list[Rows]:
        rows: list[Rows] = []
        seen: dict[str, list[tuple[Floats, Floats]]] = {}
        for period in range(len(self.grid)):
            part, stint = self._active(period)
            failed = self.events[period, part] > 0
            groups = self._groups(part, stint)
            features = self._features(period, part, stint, groups, seen)
            share = np.clip((self.remove[stint] - self.grid[period]) / PERIOD_D, 0.0, 1.0)
            rows.append(Rows(part, features, failed, np.where(failed, 1.0, share)))
            for name, group in groups.items():
                counts = np.bincount(group, failed, SIZES[name]).astype(np.float64)
                exposed = np.bincount(group, minlength=SIZES[name]).astype(np.float64)
                before = seen.setdefault(name, [(np.zeros(SIZES[name]), np.zeros(SIZES[name]))])
                before.append((before[-1][0] + counts, before[-1][1] + exposed))
        return rows

    def _groups(self, part: Ints, stint: Ints) -> dict[str, Ints]:
        col, row, cage, slot, node = self.place[stint].T
        cabinet = col * ROWS + row
        blade = (cabinet * CAGES + cage) * SLOTS + slot
        return {
            "cage and node": cage * NODES + node,
            "cage and slot": cage * SLOTS + slot,
            "column and cage": col * CAGES + cage,
            "row and cage": row * CAGES + cage,
            "cabinet": cabinet,
            "chassis": cabinet * CAGES + cage,
            "blade": blade,
            "slot and node": slot * NODES + node,
            "column": col,
            "row": row,
            "place": blade * NODES + node,
            "week made": self.made[part, 0] * 64 + self.made[part, 1],
            "1,000 made together": part // 1000,
            "256 made together": part // 256,
            "64 made together": part // 64,
        }

    def _features(
        self,
        period: int,
        part: Ints,
        stint: Ints,
        groups: Mapping[str, Ints],
        seen: Mapping[str, list[tuple[Floats, Floats]]],
    ) -> Floats:
        told = self._own(period, part, stint)
        for label, window in WINDOWS.items():
            before = max(0, period - window)
            rate = _fleet_rate(seen, before, period)
            if window < 100:
                told[f"fleet's rate, {label}"] = np.full(len(part), np.log(rate))
            for name, group in groups.items():
                count, exposed = _between(seen, name, before, period)
                expected = exposed[group] * rate
                told[f"{name}, {label}"] = log_rate_ratio(count[group], expected)
        self.names = tuple(told)
        return np.stack(list(told.values()), axis=1)

    def _own(self, period: int, part: Ints, stint: Ints) -> dict[str, Floats]:
        """Age, place and own past."""
        time = self.grid[period]
        col, row, cage, slot, node = self.place[stint].T
        age = (time - self.first[part]) / 365.25
        old = (self.made[part, 0] <= 14).astype(np.float64)
        told: dict[str, Floats] = {
            "age": age,
            "age squared": age**2,
            "time in place": np.sqrt((time - self.insert[stint]) / 365.25),
            "made by 2014": old,
            "made by 2014 and age": old * age,
            "made by 2014 and age squared": old * age**2,
            "column": (col - 12) / 7.0,
            "column squared": ((col - 12) / 7.0) ** 2,
        }
        for name, values, count in (
            ("cage", cage, CAGES),
            ("node", node, NODES),
            ("slot", slot, SLOTS),
            ("row", row, ROWS),
        ):
            told |= {f"{name} {i}": (values == i) * 1.0 for i in range(1, count)}
        for label, window in WINDOWS.items():
            own = self.events[max(0, period - window) : period, part].sum(axis=0)
            told[f"own events, {label}"] = np.log1p(own)
        return told


SIZES = {
    "cage and node": CAGES * NODES,
    "cage and slot": CAGES * SLOTS,
    "column and cage": COLS * CAGES,
    "row and cage": ROWS * CAGES,
    "cabinet": COLS * ROWS,
    "chassis": COLS * ROWS * CAGES,
    "blade": COLS * ROWS * CAGES * SLOTS,
    "slot and node": SLOTS * NODES,
    "column": COLS,
    "row": ROWS,
    "place": COLS * ROWS * CAGES * SLOTS * NODES,
    "week made": 100 * 64,
    "1,000 made together": 100,
    "256 made together": 400,
    "64 made together": 1000,
}


def _table(path: Path) -> pl.DataFrame:
    """gc_full.csv.gz with times in days since 1970 and the location taken apart."""
    raw = pl.read_csv(path, null_values=["NA"], schema_overrides={"SN": pl.String})
    days = [
        pl.col(name).str.to_datetime(time_zone="UTC").dt.epoch("s").cast(pl.Float64) / DAY_S
        for name in ("insert", "remove")
    ]
    place = raw["location"].str.extract_groups(PLACE).struct.unnest().cast(pl.Int64)
    return pl.concat([raw.with_columns(days), place], how="horizontal")


def _by_manufacture(serials: list[str]) -> list[str]:
    """A serial number holds plant, week, year and a running number: WW of YY in places 3 to 6."""
    return sorted(serials, key=lambda s: (s[4:6], s[2:4], s[6:], s))


def _numbers(table: pl.DataFrame, number: Mapping[str, int]) -> Ints:
    return np.array([number[serial] for serial in table["SN"]], np.int64)


def _weights(failed_in: Ints, left_in: Ints, periods: int) -> Floats:
    """By Kaplan and Meier's estimate of being left in service, period by period."""
    left = np.ones(periods + 1)
    for i in range(periods):
        at_risk = int(((failed_in > i) & (left_in >= i)).sum())
        gone = int(((left_in == i) & (failed_in > i)).sum())
        left[i + 1] = left[i] * (1.0 - gone / at_risk) if at_risk else left[i]
    return np.asarray(1.0 / np.maximum(left[np.minimum(failed_in, periods)], 0.01), np.float64)


def _between(
    seen: Mapping[str, list[tuple[Floats, Floats]]], name: str, before: int, period: int
) -> tuple[Floats, Floats]:
    """A group's failures and part-periods from one period to before another."""
    if name not in seen:
        return np.zeros(SIZES[name]), np.zeros(SIZES[name])
    (count, exposed), (count0, exposed0) = seen[name][period], seen[name][before]
    return count - count0, exposed - exposed0


def _fleet_rate(seen: Mapping[str, list[tuple[Floats, Floats]]], before: int, period: int) -> float:
    count, exposed = _between(seen, "cabinet", before, period)
    return float((count.sum() + 1.0) / (exposed.sum() + 1000.0))
