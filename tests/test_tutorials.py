"""Every chapter of docs/tutorial runs as it is read: its blocks in order in one process, and each prints what the page shows.

A ``text`` block behind a ``python`` block is the block's output; ``...`` in it stands for any text. Solutions of exercises are
blocks like any other.
"""

import doctest
import re
from pathlib import Path

import pytest
from programs import run_program

ROOT = Path(__file__).resolve().parent.parent
CHAPTERS = sorted((ROOT / "docs" / "tutorial").glob("[0-9]*.md"))
FENCE = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = "==== output of block {} ===="
CHECKER = doctest.OutputChecker()


def program(blocks):
    """The python blocks as one program that marks where the output of each begins."""
    return "\n".join([f"print({MARK.format(n)!r}, flush=True)\n{code}" for n, code in enumerate(blocks)])


def shown_outputs(fences):
    """The code blocks, and for those that show an output its text."""
    blocks, shown = [], {}
    for kind, text in fences:
        if kind == "python":
            blocks.append(text)
        else:
            assert blocks and len(blocks) - 1 not in shown, "an output stands behind the block that printed it"
            shown[len(blocks) - 1] = text
    return blocks, shown


@pytest.mark.parametrize("page", CHAPTERS, ids=[p.stem for p in CHAPTERS])
def test_chapter(page, tmp_path):
    blocks, shown = shown_outputs(FENCE.findall(page.read_text()))
    path = tmp_path / f"chapter_{page.stem}.py"
    path.write_text(program(blocks))
    result = run_program(path, tmp_path)
    assert result.returncode == 0, result.stderr[-3000:]
    printed = re.split("^" + re.escape(MARK).replace(r"\{\}", r"\d+") + "\n", result.stdout, flags=re.MULTILINE)[1:]
    assert len(printed) == len(blocks)
    for number, want in shown.items():
        got = printed[number]
        assert CHECKER.check_output(want, got, doctest.ELLIPSIS), f"block {number} prints\n{got}\nnot\n{want}"


def test_chapters_are_complete():
    """Every chapter stands in the index, ends with exercises and shows outputs; the course is seven chapters long."""
    index = (ROOT / "docs" / "tutorial" / "README.md").read_text()
    for page in CHAPTERS:
        text = page.read_text()
        assert f"({page.name})" in index
        assert "## Exercises" in text and "## Solutions" in text, page.name
        assert len(shown_outputs(FENCE.findall(text))[1]) >= 2, page.name


def test_wrong_output_is_found():
    """The comparison is strict where the page shows text, and open where it shows dots."""
    assert CHECKER.check_output("a ...\nb\n", "a 17\nb\n", doctest.ELLIPSIS)
    assert not CHECKER.check_output("a\nb\n", "a\nc\n", doctest.ELLIPSIS)
