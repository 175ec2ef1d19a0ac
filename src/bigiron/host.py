"""The only door to a machine: every file read and command run on a node goes through Host."""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bigiron.errors import NoData, Permanent, Temporary

READ_LIMIT = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Host:
    """``root`` is "/" in life and a captured machine's folder in tests; ``path`` finds commands.

    ``env`` is handed to them besides PATH, LC_ALL and TZ, which are always set: a site's
    ``SLURM_CONF``, for one.
    """

    name: str = ""
    root: Path = Path("/")
    path: str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    env: Mapping[str, str] = field(default_factory=dict)

    def read(self, path: str) -> str:
        """A small file's text, stripped; bad bytes replaced. Raises NoData, Permanent."""
        try:
            with self._at(path).open("rb") as file:
                data = file.read(READ_LIMIT)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NoData(path) from error
        except OSError as error:
            raise Permanent(f"{path}: {error.strerror}") from error
        return data.decode("utf-8", "replace").strip()

    def glob(self, pattern: str) -> Iterator[str]:
        """The paths that match, sorted, as seen from the host's own root."""
        for found in sorted(self.root.glob(pattern.lstrip("/"))):
            yield "/" + str(found.relative_to(self.root))

    def run(self, argv: Sequence[str], *, timeout_s: float) -> str:
        """A command's standard output. Raises NoData (not installed), Temporary, Permanent."""
        try:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=timeout_s,
                env={**self.env, "PATH": self.path, "LC_ALL": "C", "TZ": "UTC"},
                check=False,
            )
        except (FileNotFoundError, PermissionError) as error:
            raise NoData(f"{argv[0]}: not installed") from error
        except subprocess.TimeoutExpired as error:
            raise Temporary(f"{argv[0]}: no answer in {timeout_s:g} s") from error
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip()[:500]
            raise Permanent(f"{' '.join(argv)}: exit {done.returncode}: {said}")
        return done.stdout.decode("utf-8", "replace")

    def _at(self, path: str) -> Path:
        return self.root / path.lstrip("/")
