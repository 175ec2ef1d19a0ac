"""The errors bigiron raises on purpose.

* BigironError
  - NoData          the source is absent here: expected, silent, never an alarm
  - Temporary       worth trying again after ``retry_after_s`` seconds
  - Permanent       trying again cannot help; the message names file, URL or command
    - StoreError    a row of the ledger is damaged: names file, table and row
  - ConfigError     the operator must fix a file: names file, key and what was wanted
  - ParseError      an input is not what it claims to be: names source and line

Anything else that reaches the top is a bug.
"""


class BigironError(Exception):
    """Root of every error this package raises on purpose."""


class NoData(BigironError):  # noqa: N818  (a condition, not a mistake)
    """The source is absent here."""


class Temporary(BigironError):  # noqa: N818
    """Worth trying again after ``retry_after_s`` seconds."""

    def __init__(self, message: str, *, retry_after_s: float = 30.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Permanent(BigironError):  # noqa: N818
    """Trying again cannot help."""


class StoreError(Permanent):
    """A ``row`` of a ``table`` of the ledger's ``file`` does not hold what it should."""

    def __init__(self, table: str, row: str, problem: str, file: str = "") -> None:
        where = f"table {table}, row {row}"
        super().__init__(f"{file}: {where}: {problem}" if file else f"{where}: {problem}")
        self.file = file
        self.table = table
        self.row = row
        self.problem = problem


class ConfigError(BigironError):
    """The operator must fix ``file`` at ``key``; ``wanted`` says what belongs there."""

    def __init__(self, file: str, key: str, wanted: str) -> None:
        super().__init__(f"{file}: {key}: {wanted}" if key else f"{file}: {wanted}")
        self.file = file
        self.key = key
        self.wanted = wanted


class ParseError(BigironError):
    """``source`` cannot be read as what it claims to be; ``line`` counts from 1, 0 is the whole."""

    def __init__(self, source: str, line: int, problem: str) -> None:
        super().__init__(f"{source}:{line}: {problem}" if line else f"{source}: {problem}")
        self.source = source
        self.line = line
        self.problem = problem
