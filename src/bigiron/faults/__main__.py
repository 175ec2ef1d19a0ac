"""python -m bigiron.faults          docs/faults.md on standard output
python -m bigiron.faults CODE ...  these entries, whole
"""

import sys

from bigiron.faults import shipped
from bigiron.faults.page import markdown, text


def main(codes: list[str]) -> int:
    """Write the page or the entries asked for; the exit code."""
    catalogue = shipped()
    if not codes:
        sys.stdout.write(markdown(catalogue))
        return 0
    sys.stdout.write("\n".join(text(catalogue.find(code), catalogue) for code in codes))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
