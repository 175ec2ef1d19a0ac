"""Every benchmark, one after the other, each in a process of its own. `make bench`."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
BENCHES = ("cli.py", "kernel_log.py", "kmsg.py", "openmetrics.py", "hub.py", "fleet.py")
LIMIT_S = 900


def main() -> int:
    """0 if every benchmark ran."""
    failed = []
    for name in BENCHES:
        print(f"== {name.removesuffix('.py')}", flush=True)
        done = subprocess.run([sys.executable, str(HERE / name)], timeout=LIMIT_S, check=False)
        if done.returncode:
            failed.append(name)
        print(flush=True)
    for name in failed:
        print(f"{name} failed", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
