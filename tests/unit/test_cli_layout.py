import pytest

from bigiron.cli.layout import TEXT_MIN, lay_out
from bigiron.cli.table import printable

HEADERS = ("NODE", "HEALTH", "REASON")
LONG = "GPU 9b:00 (gpu3) fell off the bus; four NVSwitch faults 12 seconds later follow from it."
ROWS = [("gpu017", "unhealthy", LONG), ("gpu[001-016]", "healthy", "-")]


def lines(width: int) -> list[list[str]]:
    return [[line.cells + line.text for line in row] for row in lay_out(HEADERS, ROWS, width)]


@pytest.mark.parametrize("width", [200, 120, 100, 80, 60, 40])
def test_nothing_is_wider_than_the_terminal_and_nothing_is_lost(width: int) -> None:
    table = lines(width)
    assert max(len(line) for row in table for line in row) <= width
    words = " ".join(line for row in table for line in row).split()
    assert [word for word in words if word in LONG.split()] == LONG.split()


def test_text_stands_beside_the_columns_where_there_is_room() -> None:
    header, ill, _ = lines(100)
    assert header == ["NODE          HEALTH     REASON"]
    assert ill[0].startswith("gpu017        unhealthy  GPU 9b:00 (gpu3)")
    assert all(line.startswith(" " * 25) for line in ill[1:])


def test_text_goes_beneath_where_its_column_would_be_too_narrow_to_read() -> None:
    width = len("gpu[001-016]  unhealthy  ") + TEXT_MIN - 1
    header, ill, well = lines(width)
    assert header == ["NODE          HEALTH"]
    assert ill[0] == "gpu017        unhealthy"
    assert all(line.startswith("  ") for line in ill[1:])
    assert well == ["gpu[001-016]  healthy"], "a dash takes no line of its own"


def test_figures_stay_in_columns_that_are_made_narrower() -> None:
    share = "1.00 [0.21, 1.00] (1 of 1)"
    header, row = lay_out(("class", "recall", "right part"), [("gpu_off_bus", share, share)], 60)
    assert header[0].cells.split() == ["class", "recall", "right", "part"]
    assert [line.text for line in row] == ["", ""]
    assert max(len(line.cells) for line in row) <= 60


def test_a_folded_set_breaks_between_names() -> None:
    nodes = "n[" + ",".join(f"{n:03d}" for n in range(1, 40, 2)) + "]"
    _, row = lay_out(("NODES", "COUNT", "REASON"), [(nodes, "20", "x")], 60)
    parts = [line.cells.split("  ")[0] for line in row if not line.text]
    assert "".join(parts).replace(" ", "") == nodes
    assert all(part.endswith((",", "]")) for part in parts)


def test_no_control_character_reaches_the_terminal() -> None:
    assert printable("a\x1b[31mb\x07\nc") == "a\ufffd[31mb\ufffd c"
    assert printable("74 °C × 8") == "74 °C × 8"
