"""Every Python block of the README and of the pages of docs/ runs; every example runs."""

import ast
import importlib
import re
from functools import cache
from pathlib import Path

import pytest
from main_job import CANONICAL
from programs import run_program

import unity
from unity import meta_schedule, te, topi
from unity.script import relax, tir
from unity.support.options import OPTIONS
from unity.target import Target, backend_of
from unity.transform import DEFAULT_PIPELINE, PASSES

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
RUN_ELSEWHERE = {
    "errors.md": "cli/test_error_docs.py",  # wrong on purpose
    "schedule.md": "transform/schedule/test_schedule_docs.py",
    "torch.md": "frontend/test_docs_saved.py",
}
"""Pages whose blocks run in other tests, and so do the chapters of the tutorial, in ``test_tutorials.py``."""
WITH_CODE = [
    page
    for page in PAGES
    if page.name not in RUN_ELSEWHERE and page.parent.name != "tutorial" and BLOCK.search(page.read_text())
]


@pytest.mark.parametrize("page", WITH_CODE, ids=[str(p.relative_to(ROOT)) for p in WITH_CODE])
def test_page(page, tmp_path):
    """The blocks of a page run in order in one process (decorators read their source from the file)."""
    text = page.read_text()
    program = tmp_path / (page.stem.lower() + "_blocks.py")
    program.write_text("\n".join(BLOCK.findall(text)))
    result = run_program(program, tmp_path)
    assert result.returncode == 0, result.stderr[-3000:]


def test_pages_run_elsewhere():
    assert all([(ROOT / "tests" / test).exists() for test in RUN_ELSEWHERE.values()])
    assert set(RUN_ELSEWHERE) < {page.name for page in PAGES}


def test_readme_has_blocks():
    blocks = BLOCK.findall((ROOT / "README.md").read_text())
    assert len(blocks) >= 3 and CANONICAL in blocks[0], "the main job, as the example has it"


EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=[e.name for e in EXAMPLES])
def test_example(example, tmp_path):
    result = run_program(example, tmp_path)
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


SOURCES = [p for folder in ("unity", "tests", "tools", "benchmarks", "examples") for p in (ROOT / folder).rglob("*.py")]
FILE = re.compile(r"(?<![\w./-])((?:[\w-]+/)*[\w-]+\.py)\b")
FOLDER = re.compile(r"(?<![\w./-])((?:unity|tests|tools|docs|benchmarks|examples)/[\w/.-]*\w)")
DOTTED = re.compile(r"\b(unity(?:\.[a-zA-Z_]\w*)+)")
NO_FILES = {"file.py", "NNN_pass.py", "NNN_input.py"}
"""Examples of names."""
SYMBOLS = ("unity.kernel", "unity.reduce_half_pi")
"""Names in machine code and of registered functions, which begin as modules do."""


@cache
def prose():
    """Files and what they say in words: pages (records of decisions tell of what is gone), docstrings, comments."""
    said = [(p, p.read_text()) for p in [*PAGES, *(ROOT / "unity").rglob("*.md")] if p.parent.name != "decisions"]
    for path in [path for path in SOURCES if path.relative_to(ROOT).parts[0] != "tests"]:
        text = path.read_text()
        strings = [
            n.value for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)
        ]
        said.append((path, "\n".join([s.value for s in strings if isinstance(s.value, str)])))
        said.append((path, "\n".join([line for line in text.splitlines() if line.lstrip().startswith("#")])))
    return said


def reaches(name):
    """Is a dotted name a module, or something in one?"""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            found = getattr(found, part, None)
        return found is not None
    return False


def test_files_and_modules_named_in_prose_exist():
    known = {"/" + str(path.relative_to(ROOT)) for path in SOURCES}
    wrong, dotted = [], {}
    for where, text in prose():
        for name in {*FILE.findall(text), *FOLDER.findall(text)} - NO_FILES:
            near = [base / name for base in (ROOT, where.parent, where.parent.parent)]
            if not any([path.exists() for path in near]) and not any([path.endswith("/" + name) for path in known]):
                wrong.append(f"{where.relative_to(ROOT)} names {name}")
        dotted.update({name: where for name in DOTTED.findall(text) if not name.startswith(SYMBOLS)})
    wrong += [f"{where.relative_to(ROOT)} names {name}" for name, where in dotted.items() if not reaches(name)]
    assert wrong == []


OWN = {
    r"\bUNITY_[A-Z_]*[A-Z]\b": set(OPTIONS),
    r"\bE\d{3}\b": {page.stem for page in (ROOT / "unity" / "support" / "error_docs").glob("*.md")},
}
"""Forms of names of options and error codes, and those that exist."""
OBJECTS = {
    "R": relax, "T": tir, "ms": meta_schedule, "te": te, "topi": topi, "vm": unity.VirtualMachine, "bb": unity.BlockBuilder,
    "sch": unity.Schedule, "executable": unity.Executable,
}  # fmt: skip
ATTRIBUTE = re.compile(r"(?<![\w.\"'])(" + "|".join(OBJECTS) + r")\.([a-zA-Z_]\w*)")
NOT_HERE = {
    "te.create_schedule", "te.gradient", "te.scan", "te.hybrid", "topi.cuda", "topi.x86", "topi.vision", "topi.testing",
    "T.expp", "T.store", "T.Ptr", "R.gpu", "R.device", "sch.trace",
}  # fmt: skip
"""Names that pages say are absent, wrong or old; devices in script; what an instance has."""


def test_options_and_codes_named_in_prose_exist():
    named = [(w, name, those) for w, text in prose() for form, those in OWN.items() for name in re.findall(form, text)]
    assert [f"{where.relative_to(ROOT)} names {name}" for where, name, those in named if name not in those] == []


def test_attributes_in_code_of_pages_exist():
    """What stands in the running text as ``R.add`` or ``vm.profile`` is there."""
    named = {
        (page.name, *found)
        for page in PAGES
        if page.parent.name != "decisions"
        for code in re.findall(r"`([^`\n]+)`", FENCED.sub("", page.read_text()))
        for found in ATTRIBUTE.findall(code)
    }
    absent = [found for found in named if not hasattr(OBJECTS[found[1]], found[2])]
    assert [found for found in absent if ".".join(found[1:]) not in NOT_HERE] == [] and len(named) > 300


def test_passes_outside_the_default_pipeline_are_those_of_the_page():
    """The table of graph passes has every pass that the default pipeline leaves out, and none that it has."""
    text = (ROOT / "docs" / "passes.md").read_text().split("Those outside the default pipeline:")[1].split("\n\n")[1]
    listed = {name for row in text.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    rooms = ("unity.transform.relax.", "unity.relax.passes.")
    graph = {name for name, step in PASSES.items() if step.function.__module__.startswith(rooms)}
    assert listed - {"pass"} == graph - {step.name for step in DEFAULT_PIPELINE}


@pytest.mark.parametrize(("page", "target"), [("lowering.md", "llvm"), ("gpu.md", "cuda")])
def test_rules_of_default_schedules_are_those_of_the_page(page, target):
    """Each rule of a backend has its row, or a place in one."""
    text = (ROOT / "docs" / page).read_text()
    (table,) = re.findall(r"^\| rule \| \w+ \|\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    listed = {name.strip(" `") for row in table.splitlines() for name in row.split("|")[1].split(",")}
    assert {rule.name for rule in backend_of(Target(target)).rules} <= listed


GERMAN = re.compile(
    r"(?<!there)(?<!There)(?<!where)(?<!than)(?<!here)\s(?:is|are) no\s+(?!such|longer|more\b|less\b|need|reason|matter|obstacle|different|exception)[a-z`{]\w*"
)
"""What English says as "is not a tensor", but for "there is no tensor"."""


def test_what_a_thing_is_not_is_said_in_english():
    pages = [page for page in PAGES if page.parent.name != "decisions"]
    files = [*pages, *(ROOT / "unity").rglob("*.py"), *(ROOT / "unity").rglob("*.md")]
    found = {str(file.relative_to(ROOT)): GERMAN.findall(file.read_text()) for file in files}
    assert {name: words for name, words in found.items() if words} == {}
