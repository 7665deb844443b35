"""Write every generated page of ``docs/`` and the stubs of the script namespaces. Run from the repository root.

The pages show code for a target they name, whatever machine makes them.
``python tools/make_docs.py`` writes what is not current; ``--check`` only says so and exits 1.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import make_error_docs  # noqa: E402
import make_language_tables  # noqa: E402
import make_op_docs  # noqa: E402
import make_option_docs  # noqa: E402
import make_schedule_docs  # noqa: E402
import make_stages_page  # noqa: E402
import make_stubs  # noqa: E402

from unity.ffi.targets.target import Target  # noqa: E402

DOCS = ROOT / "docs"
PAGES: dict[Path, Callable[[], str]] = {
    DOCS / "stages.md": make_stages_page.build,
    DOCS / "errors.md": make_error_docs.build,
    DOCS / "operators.md": make_op_docs.render,
    DOCS / "options.md": make_option_docs.build,
    DOCS / "language.md": make_language_tables.build,
    DOCS / "schedule.md": make_schedule_docs.render,
    make_stubs.OUT / "ir.pyi": lambda: make_stubs.build("ir"),
    make_stubs.OUT / "relax.pyi": lambda: make_stubs.build("relax"),
    make_stubs.OUT / "tir.pyi": lambda: make_stubs.build("tir"),
    make_stubs.METHODS: make_stubs.methods,
}
"""Every generated file and what makes its text."""


def stale() -> dict[Path, str]:
    """Files that are not current, with the text they should have."""
    with Target(make_stages_page.TARGET):
        texts = {path: build() for path, build in PAGES.items()}
    return {path: text for path, text in texts.items() if not path.exists() or path.read_text(encoding="utf-8") != text}


def main() -> int:
    """Write or check the files."""
    found = stale()
    check = "--check" in sys.argv[1:]
    for path, text in found.items():
        if not check:
            path.write_text(text, encoding="utf-8")
        print(f"{path.relative_to(ROOT)} {'is not current: run python tools/make_docs.py' if check else 'written'}")
    return 1 if check and found else 0


if __name__ == "__main__":
    sys.exit(main())
