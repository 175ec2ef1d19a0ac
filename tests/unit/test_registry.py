"""One file a plugin: what is imported for it, and what is left alone."""

import subprocess
import sys
from pathlib import Path

INIT = """
from bigiron.registry import Registry
tool = Registry(__name__, "tool")
"""
PLUGIN = '''
from plugs import tool
@tool(reads=("a",))
def hammer() -> int:
    """Hits things.

    More about it.
    """
    return 7
'''


def load(tmp_path: Path, **modules: str) -> subprocess.CompletedProcess[str]:
    """Lists the plugins of a package of these modules, in a process of its own."""
    package = tmp_path / "plugs"
    package.mkdir()
    for name, text in {"__init__": INIT, **modules}.items():
        (package / f"{name}.py").write_text(text)
    script = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from plugs import tool\n"
        "print([(p.name, p.doc, p.reads, p.run()) for p in tool])\n"
        "print(sorted(m for m in sys.modules if m.startswith('plugs.')))\n"
    )
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=False
    )


def test_a_plugin_is_one_file(tmp_path: Path) -> None:
    done = load(tmp_path, hammer=PLUGIN)
    assert done.stdout.splitlines()[0] == "[('hammer', 'Hits things.', ('a',), 7)]"


def test_a_module_without_a_plugin_is_not_imported(tmp_path: Path) -> None:
    done = load(tmp_path, hammer=PLUGIN, heavy="import a_library_that_is_not_installed\n")
    assert done.returncode == 0
    assert done.stdout.splitlines()[1] == "['plugs.hammer']"


def test_two_plugins_of_one_name_are_refused(tmp_path: Path) -> None:
    done = load(tmp_path, hammer=PLUGIN, other=PLUGIN)
    assert "two plugins named hammer in plugs" in done.stderr


def test_a_plugin_without_help_is_refused(tmp_path: Path) -> None:
    done = load(tmp_path, mute="from plugs import tool\n@tool()\ndef mute(): return 1\n")
    assert "mute needs a docstring" in done.stderr
