"""Every Python block of the README and of the pages of docs/ runs; every example runs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from main_job import CANONICAL

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
# The examples of errors.md are wrong on purpose; tests/cli checks that page. tests/test_tutorials.py runs the tutorial.
WITH_CODE = [
    page
    for page in PAGES
    if page.name != "errors.md" and page.parent.name != "tutorial" and BLOCK.search(page.read_text())
]


def run(path, cwd):
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=240, cwd=cwd, env=env)


@pytest.mark.parametrize("page", WITH_CODE, ids=[str(p.relative_to(ROOT)) for p in WITH_CODE])
def test_page(page, tmp_path):
    """The blocks of a page run in order in one process (decorators read their source from the file)."""
    text = page.read_text()
    program = tmp_path / (page.stem.lower() + "_blocks.py")
    program.write_text("\n".join(BLOCK.findall(text)))
    result = run(program, tmp_path)
    assert result.returncode == 0, result.stderr[-3000:]


def test_readme_has_blocks():
    blocks = BLOCK.findall((ROOT / "README.md").read_text())
    assert len(blocks) >= 3 and CANONICAL in blocks[0], "the main job, as the example has it"


EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=[e.name for e in EXAMPLES])
def test_example(example, tmp_path):
    result = run(example, tmp_path)
    assert result.returncode == 0, result.stderr[-3000:]
    assert result.stdout.strip(), "an example shows its result"


def test_links_between_pages_exist():
    for page in PAGES:
        text = page.read_text()
        for target in re.findall(r"`((?:docs|examples|tests|unity|tools|benchmarks)/[\w./-]+)`", text):
            assert (ROOT / target).exists(), f"{page.name} names {target}"
        for target, heading in re.findall(r"\]\(([\w./-]*\.md)?(?:#([\w-]+))?\)", text):
            linked = page.parent / target if target else page
            assert linked.exists(), f"{page.name} links to {target}"
            assert not heading or heading in headings(linked), f"{page.name} links to {target}#{heading}"


def headings(page):
    """The anchors that GitHub makes of a page's headings."""
    found = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-") for line in found}
