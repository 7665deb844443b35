"""The size and shape of the package as a table: ``make metrics``. It reads the files as text and runs none of them.

Words counts names, numbers, operators and texts (Python's tokens), so that denser lines do not count as less.
"""

from __future__ import annotations

import ast
import re
import statistics
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "unity"
LAYOUT = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT, tokenize.ENDMARKER}


def words(path: Path) -> int:
    """Tokens of a file that carry meaning."""
    with tokenize.open(path) as file:
        return sum([token.type not in LAYOUT for token in tokenize.generate_tokens(file.readline)])


def for_types_only(tree: ast.Module) -> set[int]:
    """Imports under ``if TYPE_CHECKING``."""
    blocks = [n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n.test)]
    return {id(inner) for block in blocks for inner in ast.walk(block)}


def folder_edges(trees: dict[Path, ast.Module]) -> dict[Path, set[Path]]:
    """Folder -> folders of the same room that its files import from."""
    edges: dict[Path, set[Path]] = defaultdict(set)
    for path, tree in trees.items():
        if path.name == "__init__.py" or path.parent == PACKAGE:
            continue
        skipped = for_types_only(tree)
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom) or not node.level or id(node) in skipped:
                continue
            base = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            for alias in node.names:
                found = base / alias.name
                target = found if found.is_dir() else base if base.is_dir() else base.parent
                same_room = target.relative_to(PACKAGE).parts[:1] == path.relative_to(PACKAGE).parts[:1]
                if same_room and target != path.parent:
                    edges[path.parent].add(target)
    return edges


def knots(edges: dict[Path, set[Path]]) -> Iterator[list[str]]:
    """Circles among folders, one after the other; each is named once."""
    left = {folder: set(targets) for folder, targets in edges.items()}
    while True:
        try:
            TopologicalSorter(left).prepare()
            return
        except CycleError as error:
            circle = error.args[1]
            yield [str(folder.relative_to(PACKAGE)) for folder in circle]
            left[circle[1]].discard(circle[0])


def longest_chain(trees: dict[Path, ast.Module]) -> tuple[int, str]:
    """The longest line of inheritance among classes of the package, errors and warnings aside."""
    bases: dict[tuple[Path, str], list[tuple[Path, str]]] = {}
    for path, tree in trees.items():
        imported: dict[str, tuple[Path, str]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.level:
                home = path.parents[node.level - 1].joinpath(*(node.module or "").split(".")).with_suffix(".py")
                imported |= {alias.asname or alias.name: (home, alias.name) for alias in node.names}
            elif isinstance(node, ast.ClassDef) and not node.name.endswith(("Error", "Warning")):
                named = [base.id for base in node.bases if isinstance(base, ast.Name)]
                bases[path, node.name] = [imported.get(name, (path, name)) for name in named]

    def length(place: tuple[Path, str]) -> int:
        return 1 + max([length(base) for base in bases[place]], default=0) if place in bases else 0

    return max([(length(place), place[1]) for place in bases], default=(0, ""))


def main() -> int:
    """Print the table."""
    files = sorted(PACKAGE.rglob("*.py"))
    texts = {path: path.read_text() for path in files}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    sizes = sorted([len(text.splitlines()) for text in texts.values()])
    chain, deepest = longest_chain(trees)
    small = [p for p, text in texts.items() if len(text.splitlines()) < 40 and p.name != "__init__.py"]
    whole = "\n".join(texts.values())
    rows = {
        "files": len(files),
        "lines": sum(sizes),
        "words": sum([words(path) for path in files]),
        "lines of a file: median, 90 %, largest": (
            f"{statistics.median(sizes):.0f}, {sizes[int(len(sizes) * 0.9)]}, {sizes[-1]}"
        ),
        "files under 40 lines": len(small),
        "circles among folders of a room": len(list(knots(folder_edges(trees)))),
        "longest inheritance": f"{chain} ({deepest})",
        "imports by name in a text": len(re.findall(r"^    \"\w+\": \"unity\.", whole, re.MULTILINE)),
        "`type: ignore`": whole.count("type: ignore"),
    }
    print("| what | now |\n|---|---|")
    print("\n".join([f"| {what} | {value} |" for what, value in rows.items()]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
