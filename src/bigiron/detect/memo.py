"""Work that need not be done again while what it was made of is the same.

No state: without it every answer is the same, only later. Whoever remembers between looks (the
hub's memory) hands the same memo to each; else it lasts for one look.
"""

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Memo:
    """The newest answer to each of some questions, and what it was made of.

    That are objects that nobody changes in place: the same objects give the same answer, and so
    do equal tuples and numbers (a count of changes stands for what is changed in place).
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[object, ...], Any]] = {}

    def made(self, what: str, of: tuple[object, ...], make: Callable[[], T]) -> T:
        """What ``make`` gives; its last answer to ``what`` if that was made of the same."""
        known = self._known.get(what)
        if known is None or not _same(known[0], of):
            known = self._known[what] = of, make()
        answer: T = known[1]
        return answer


def _same(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    return len(one) == len(other) and all(
        a is b or (isinstance(a, int | float | tuple) and a == b)
        for a, b in zip(one, other, strict=True)
    )
