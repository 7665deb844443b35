"""Write ``docs/errors.md`` from the pages in ``unity/support/error_docs``. Run from the repository root.

``python tools/make_error_docs.py`` writes the file; with ``--check`` it exits 1 when the file is not current.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "unity" / "support" / "error_docs"
TARGET = ROOT / "docs" / "errors.md"
RANGES = {
    "0": "Options and command line", "1": "Script", "2": "Types", "3": "Verifier and interpreter", "4": "Schedules",
    "5": "Passes and code generation", "6": "Running in the VM", "7": "Foreign functions and tensors", "8": "Saved files",
    "9": "Internal",
}  # fmt: skip
CODE = re.compile(r'"(E\d{3})"')


def build() -> str:
    """The text of ``docs/errors.md``."""
    lines = [
        "# Error codes",
        "",
        "Made by `tools/make_error_docs.py` from `unity/support/error_docs`; change the pages there. "
        "`python -m unity explain E101` shows one page.",
    ]
    group = ""
    for page in sorted(PAGES.glob("E*.md")):
        if page.stem[1] != group:
            group = page.stem[1]
            lines += ["", f"## {RANGES[group]}"]
        text = page.read_text(encoding="utf-8").strip()
        lines += ["", "##" + text]
    return "\n".join(lines) + "\n"


def used_codes() -> dict[str, str]:
    """Codes that stand in the package's source, with the first file of each."""
    found: dict[str, str] = {}
    for path in sorted((ROOT / "unity").rglob("*.py")):
        for match in CODE.finditer(path.read_text(encoding="utf-8")):
            found.setdefault(match.group(1), str(path.relative_to(ROOT)))
    return found


def pages() -> set[str]:
    """Codes that have a page."""
    return {page.stem for page in PAGES.glob("E*.md")}


def main() -> int:
    """Write or check the file."""
    text = build()
    if "--check" in sys.argv[1:]:
        current = TARGET.exists() and TARGET.read_text(encoding="utf-8") == text
        print("docs/errors.md is current" if current else "docs/errors.md is stale: run tools/make_error_docs.py")
        return 0 if current else 1
    TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
