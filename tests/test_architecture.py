"""The house rules that a machine can check: layers, imports, cycles, file sizes, error pages, options."""

from __future__ import annotations

import ast
import builtins
import importlib
import pkgutil
import re
import subprocess
import sys
from functools import cache
from inspect import ismodule
from pathlib import Path

import pytest
from metrics import longest_chain

import unity
from unity.support.gc_pause import young_collection

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "unity"
ROOMS = (
    "support",
    "ffi",
    "ir",
    "arith",
    "te",
    "op",
    "script",
    "transform",
    "target",
    "vm",
    "meta_schedule",
    "frontend",
    "cli",
)
FRONT = (
    "relax",
    "tir",
    "topi",
    "tirx",
    "s_tir",
    "runtime",
    "nd",
    "instrument",
    "testing",
    "ir.transform",
    "ir.instrument",
)
"""The right end: TVM's names and argument orders, as modules to import from. No room imports them."""
FOLDERS = {
    "ffi": "cuda < ffi < cache < targets < machine_code < native < calls < runtime",
    "ir": "ir < analysis < verifier < interpret.common < interpret.scalar < interpret.threads < interpret",
    "op": "common < elementwise < manipulate < reduction < linalg < nn < op < building",
    "script": "spelling < parser < reader.common < reader.tir < reader.relax < reader < printer < script",
    "transform": "infra < tir.analysis < tir.blocks < tir.expressions < tir.vectors < tir.buffers < tir.loops < tir.threads < tir"
    " < default_schedule.common < default_schedule.nests < schedule.core < schedule.rewrites < schedule.traces"
    " < schedule.preconditions < schedule.primitives < schedule < auto_tensorize < default_schedule"
    " < default_schedule.gpu.common < default_schedule.gpu.products < default_schedule.gpu < relax.rewriting < relax.analysis"
    " < relax.normalize < relax.lowering < relax.memory < dpl"
    " < relax.algebra < relax.gradient < relax.params < relax.fusion < relax.interprocedural < relax.precision < relax.layout"
    " < relax < validation < transform",
    "target": "target < llvm.math < llvm < cpu < cuda < tensor_intrin < shipped",
    "vm": "builtins < executable < compiler < interpreter < native < vm",
    "meta_schedule": "core < database < workers < space < cost_model < search < meta_schedule",
    "frontend": "frontend < precision < choose < torch.runtime < torch.context < torch.operators < torch.translate"
    " < torch.capture < torch",
}
"""Folders of rooms that have any: a file imports from its own folder and from those to its left. The room's own name, or that of a
folder with folders, is the files that lie in it directly. ``__init__`` hands names on and is no part of the order."""
FILES = sorted(PACKAGE.rglob("*.py"))
SOURCES = {path: path.read_text() for path in FILES}
WARN, LIMIT = 400, 500
RUN_TIME_ROOMS = ("support", "ffi", "vm")
"""What a saved program needs to be loaded and run."""


@cache
def nodes(path: Path) -> list[ast.AST]:
    """Every node of a file, the module first; read once, and not where other tests run."""
    with young_collection():  # a million nodes, none of them garbage
        return list(ast.walk(ast.parse(SOURCES[path])))


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def room_of(path: Path) -> str | None:
    """The room a file stands in; None for files of the front door."""
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 and not is_front(module_of(path)) else None


def is_front(module: tuple[str, ...]) -> bool:
    """Is it a module of the right end?"""
    return (module[1:2] and module[1] in FRONT) or ".".join(module[1:3]) in FRONT


def module_of(path: Path) -> tuple[str, ...]:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


MODULES = {module_of(path) for path in FILES}


def imported(path: Path, node: ast.Import | ast.ImportFrom) -> list[tuple[str, ...]]:
    """Modules of the package an import statement names (a name from a package counts as a module where it is one)."""
    if isinstance(node, ast.Import):
        return [tuple(a.name.split(".")) for a in node.names if a.name.split(".")[0] == "unity"]
    if node.level:
        here = module_of(path)
        package = here if path.name == "__init__.py" else here[:-1]
        base = package[: len(package) - (node.level - 1)] + (tuple(node.module.split(".")) if node.module else ())
    else:
        base = tuple((node.module or "").split("."))
    if base[:1] != ("unity",):
        return []
    found = []
    for alias in node.names:
        inner = (*base, alias.name)
        found.append(inner if is_module(inner) else base)
    return found


def is_module(parts: tuple[str, ...]) -> bool:
    return parts in MODULES


def for_types_only(path: Path) -> set[ast.AST]:
    """Import statements under ``if TYPE_CHECKING``."""
    if "TYPE_CHECKING" not in SOURCES[path]:
        return set()
    branches = [n for n in nodes(path) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n.test)]
    return {inner for branch in branches for part in branch.body for inner in ast.walk(part)}


@cache
def imports(path: Path) -> list[tuple[ast.Import | ast.ImportFrom, list[tuple[str, ...]]]]:
    """Import statements that run, with the modules of the package they name."""
    found = [n for n in nodes(path) if isinstance(n, (ast.Import, ast.ImportFrom))]
    skipped = for_types_only(path)
    return [(node, imported(path, node)) for node in found if node not in skipped]


def test_every_room_is_known() -> None:
    folders = {p.name for p in PACKAGE.iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert folders <= {*ROOMS, *FRONT}, folders - set(ROOMS)


def test_rooms_import_only_leftwards() -> None:
    wrong = []
    for path in FILES:
        room = room_of(path)
        if room is None:
            continue
        for node, modules in imports(path):
            for module in modules:
                target = module[1] if len(module) > 1 and module[1] in ROOMS else None
                if is_front(module) or (target is not None and ROOMS.index(target) > ROOMS.index(room)):
                    wrong.append(f"{name(path)}:{node.lineno} imports {'.'.join(module)}")
    assert not wrong, "\n".join(wrong)


def test_a_target_is_named_in_its_own_folder_alone() -> None:
    """Other files ask the ``Backend`` for whatever differs between targets: none imports a code generator, or compares kinds, but
    for the list of those that are shipped."""
    folders = {p.parent.name for p in (PACKAGE / "target").rglob("backend.py")}
    assert "cpu" in folders
    wrong = []
    for path in FILES:
        if path.relative_to(PACKAGE).parts[:1] == ("target",) and {"shipped", *folders} & set(path.parts):
            continue
        for node, modules in imports(path):
            wrong += [f"{name(path)}:{node.lineno}" for m in modules if m[1:2] == ("target",) and folders & set(m[2:3])]
        for node in [n for n in nodes(path) if isinstance(n, (ast.Compare, ast.MatchValue))]:
            constants = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)]
            wrong += [f"{name(path)}:{node.lineno}" for value in constants if value in ("llvm", "cuda")]
    assert not wrong, "\n".join(wrong)


def folder_of(path: Path) -> str:
    """A file's folder inside its room, dotted; the room's name for files directly in it."""
    inside = path.relative_to(PACKAGE).parts[1:-1]
    return ".".join(inside) or path.relative_to(PACKAGE).parts[0]


def test_folders_import_only_leftwards() -> None:
    wrong = []
    for path in FILES:
        room = room_of(path)
        if room is None or path.name == "__init__.py":
            continue
        order = FOLDERS[room].split(" < ") if room in FOLDERS else [room]
        here = folder_of(path)
        assert here in order, f"{name(path)}: {here} has no place in FOLDERS[{room!r}]"
        for node, modules in imports(path):
            for module in [m for m in modules if m[1:2] == (room,)]:
                file = ROOT.joinpath(*module)
                target = folder_of(file / "__init__.py" if file.is_dir() else file.with_suffix(".py"))
                if order.index(target) > order.index(here):
                    wrong.append(f"{name(path)}:{node.lineno} imports {'.'.join(module)}")
    assert not wrong, "\n".join(wrong)


def test_no_imports_inside_functions() -> None:
    wrong = []
    for path in FILES:
        for node in nodes(path):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                inner = [n for n in ast.walk(node) if isinstance(n, (ast.Import, ast.ImportFrom))]
                wrong += [f"{name(path)}:{n.lineno}" for n in inner]
    assert not wrong, "\n".join(sorted(set(wrong)))


def test_modules_are_imported_by_name_in_one_place_only() -> None:
    """``importlib`` serves the lazy front doors and optional packages, nothing else."""
    allowed = {"unity/support/optional.py", "unity/support/lazy.py"}
    wrong = [
        name(p)
        for p in FILES
        for node, _ in imports(p)
        if isinstance(node, ast.Import) and any([a.name == "importlib" for a in node.names]) and name(p) not in allowed
    ]
    assert not wrong, "\n".join(wrong)


def test_relative_imports_inside_the_package() -> None:
    wrong = []
    for path in FILES:
        for node, modules in imports(path):
            if modules and (isinstance(node, ast.Import) or node.level == 0):
                wrong.append(f"{name(path)}:{node.lineno}")
    assert not wrong, "\n".join(wrong)


def test_a_package_hides_no_folder_behind_a_name() -> None:
    """``import unity.a.b.c`` finds its way only where ``unity.a.b`` is the folder and not a function of the same name."""
    wrong = []
    for path in [file for file in FILES if file.name == "__init__.py"]:
        for node, _ in imports(path):
            if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module:
                names = [alias.asname or alias.name for alias in node.names]
                wrong += [
                    f"{name(path)}: {one}" for one in names if one == node.module and (path.parent / one).is_dir()
                ]
    assert not wrong, wrong


def test_a_lazy_name_is_no_module_of_its_package() -> None:
    """The import of a module puts it into its package under its name, and a function found there later would be the module."""
    wrong = []
    for path in [file for file in FILES if file.name == "__init__.py" and "lazy import" in SOURCES[file]]:
        package = importlib.import_module(".".join(module_of(path)))
        own = {found.name for found in pkgutil.iter_modules(package.__path__)}
        wrong += [
            f"{package.__name__}.{x}" for x in own.intersection(package.__all__) if not ismodule(package.__getattr__(x))
        ]
    assert not wrong, wrong


def test_every_pass_has_its_name() -> None:
    """A pass that stands neither in a pipeline nor among the names of ``unity.transform`` would be found by nobody."""
    written = set()
    for path in [p for p in FILES if p.relative_to(PACKAGE).parts[0] == "transform" or p.parent.name == "passes"]:
        for node in [n for n in nodes(path) if isinstance(n, ast.FunctionDef)]:
            made = [d for d in node.decorator_list if isinstance(d, ast.Call) and ast.unparse(d.func).endswith("_pass")]
            named = [ast.literal_eval(word.value) for d in made for word in d.keywords if word.arg == "name"]
            written |= {*named} if named else {node.name for _ in made}
    listed = subprocess.run(
        [sys.executable, "-m", "unity", "opt", "--list"], capture_output=True, text=True, check=True
    )
    assert len(written) > 90 and written - {line.split()[0] for line in listed.stdout.splitlines()} == set()


def test_no_import_cycles() -> None:
    graph: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
    for path in FILES:
        here = module_of(path)
        graph[here] = {m for _, modules in imports(path) for m in modules if m != here and is_module(m)}
    for (
        here,
        targets,
    ) in graph.items():  # a package's __init__ runs before its modules: importing the own package is no edge
        graph[here] = {t for t in targets if here[: len(t)] != t}
    state: dict[tuple[str, ...], int] = {}
    cycle: list[str] = []

    def visit(module: tuple[str, ...], trail: list[tuple[str, ...]]) -> None:
        state[module] = 1
        for target in sorted(graph.get(module, ())):
            if state.get(target) == 1 and not cycle:
                cycle.append(
                    " -> ".join(
                        [".".join(m) for m in [*trail[trail.index(target) if target in trail else 0 :], module, target]]
                    )
                )
            elif target not in state:
                visit(target, [*trail, module])
        state[module] = 2

    for module in sorted(graph):
        if module not in state:
            visit(module, [])
    assert not cycle, cycle[0]


def compiler_files_reached(start: tuple[str, ...]) -> list[str]:
    """Files of compiler rooms that importing a module pulls in, with the packages on the way."""
    seen: set[tuple[str, ...]] = set()
    stack = [start]
    wrong: list[str] = []
    while stack:
        module = stack.pop()
        for length in range(1, len(module) + 1):
            prefix = module[:length]
            if prefix in seen or not is_module(prefix):
                continue
            seen.add(prefix)
            path = ROOT.joinpath(*prefix)
            path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
            if len(prefix) > 1 and prefix[1] not in (*RUN_TIME_ROOMS, "version"):
                wrong.append(".".join(prefix))
                continue
            stack += [m for _, modules in imports(path) for m in modules]
    return wrong


@pytest.mark.parametrize("module", ["load", "virtual_machine"])
def test_running_a_saved_program_needs_no_compiler(module: str) -> None:
    start = ("unity", "vm", *module.split("."))
    if not is_module(start):
        pytest.fail(f"unity/vm/{module} is gone: name the module that loads and runs saved programs here")
    assert not compiler_files_reached(start)


def test_file_sizes() -> None:
    listed = {
        line.split()[0]
        for line in (ROOT / "tests" / "large_files.txt").read_text().splitlines()
        if line and line[0] != "#"
    }
    sizes = {name(p): len(text.splitlines()) for p, text in SOURCES.items()}
    too_long = [f"{file}: {lines} lines" for file, lines in sizes.items() if lines > LIMIT and file not in listed]
    assert not too_long, "split them, or give a reason in tests/large_files.txt:\n" + "\n".join(too_long)
    gone = [file for file in listed if file not in sizes]
    assert not gone, f"take them off tests/large_files.txt: {gone}"
    long = [f"{file} ({lines})" for file, lines in sizes.items() if WARN < lines <= LIMIT]
    if long:
        print(f"over {WARN} lines:", ", ".join(sorted(long)))


def test_long_tests_exist():
    lines = [line for line in (ROOT / "tests" / "long_tests.txt").read_text().splitlines() if not line.startswith("#")]
    assert lines == sorted(set(lines))
    for line in lines:
        file, _, name = line.partition("::")
        found = ROOT / file
        assert found.exists() and (not name or f"def {name.partition('[')[0]}(" in found.read_text()), line


def test_every_module_says_what_it_is() -> None:
    missing = [name(p) for p in FILES if not ast.get_docstring(nodes(p)[0])]
    assert not missing, "\n".join(missing)


CODE = re.compile(r'"(E\d{3})"')
PAGES = {p.stem: p.read_text() for p in (PACKAGE / "support" / "error_docs").glob("*.md")}
USED = {code for text in SOURCES.values() for code in CODE.findall(text)}


NOT_OURS = {"__init__.pyi", "run.py", "NNN_pass.py", "NNN_input.py"}
"""Names of files that stand for a kind of file, or that dumps write."""


def test_files_that_docstrings_name_exist() -> None:
    """A name alone is a file of the same folder, a path one from the root or from ``unity/``."""
    missing = []
    for path, text in SOURCES.items():
        for named in sorted(set(re.findall(r"`([\w./-]+\.(?:pyi?|md|lark))`", text)) - NOT_OURS):
            folders = (PACKAGE, ROOT) if "/" in named else (path.parent,)
            if not any([(folder / named).exists() for folder in folders]):
                missing.append(f"{name(path)} names {named}")
    assert not missing, "\n".join(missing)


ELSEWHERE = {
    "compute_index_ranges_weights", "f_inplace", "fused_add_relu", "main_adjoint", "split_host_device", "sym_max",
    "torch_dynamo_backends", "v_i", "v_o", "visit_add_", "visit_cal_", "visit_int_imm_",
}  # fmt: skip
"""Names that programs of examples, torch or TVM have."""


def test_names_that_docstrings_name_exist() -> None:
    """A name in backquotes with an underscore stands in the code, or in a text of it."""
    said, words = {}, {path.stem for path in FILES}
    for path in FILES:
        docs = {
            node.value for node in nodes(path) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }
        for node in nodes(path):
            if node not in docs:
                words.update(re.findall(r"\w+", " ".join([v for _, v in ast.iter_fields(node) if isinstance(v, str)])))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                said.update(dict.fromkeys(re.findall(r"`(?:\w+\.)*([a-z]+(?:_[a-z]+)+_?)`", node.value), name(path)))
    gone = [f"{where} names {found}" for found, where in said.items() if found not in words | ELSEWHERE]
    assert not gone, "\n".join(gone)


def test_docstrings_name_their_subject() -> None:
    """None begins with "What ..." or as a question does: the subject or the verb comes first ("True if ...")."""
    question = re.compile("(What|How|Why|Which|Who|Is|Are|Was|Does|Did|Has|Can|May|Must|Would) ")
    texts = [
        f"{name(path)}:{node.lineno}"
        for path in FILES
        for node in nodes(path)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        if question.match(node.value.value)
    ]
    assert not texts, f"docstrings that begin as questions: {texts}"


def test_every_error_code_has_a_page() -> None:
    assert not USED - set(PAGES), sorted(USED - set(PAGES))


def test_every_page_belongs_to_a_code() -> None:
    assert not set(PAGES) - USED, sorted(set(PAGES) - USED)


@pytest.mark.parametrize("code", sorted(PAGES))
def test_pages_have_one_form(code: str) -> None:
    text = PAGES[code]
    assert re.match(rf"# {code}: \S", text), "the first line is '# <code>: title'"
    assert "\n\n**Cause.** " in text and "\n\n**Fix.** " in text
    assert text.index("**Cause.**") < text.index("**Fix.**")


def test_every_option_is_documented() -> None:
    table = re.findall(r'Option\("(UNITY_\w+)"', (PACKAGE / "support" / "options.py").read_text())
    assert table
    page = ROOT / "docs" / "options.md"
    assert page.exists(), "docs/options.md is missing"
    missing = [option for option in table if option not in page.read_text()]
    assert not missing, missing


def test_options_are_read_through_the_table() -> None:
    wrong = [name(p) for p, text in SOURCES.items() if "os.environ" in text and name(p) != "unity/support/options.py"
             and re.search(r"""environ[^\n]*UNITY_""", text)]  # fmt: skip
    assert not wrong, wrong


def test_test_files_have_unique_names() -> None:
    """pytest puts the folder of a test on the path: two files of one name would be taken for each other."""
    seen: dict[str, str] = {}
    twice = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        if path.name in ("conftest.py", "__init__.py"):
            continue
        other = seen.setdefault(path.name, name(path))
        if other != name(path):
            twice.append(f"{other} and {name(path)}")
    assert not twice, "\n".join(twice)


def test_primitive_types_are_made_in_one_place() -> None:
    """``prim_type`` interns them, and comparisons count on it."""
    wrong = [
        f"{name(path)}:{node.lineno}"
        for path in FILES
        for node in nodes(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "PrimType"
    ]
    assert [place.partition(":")[0] for place in wrong] == ["unity/ir/types.py"], wrong


def test_the_front_door_names_every_room():
    assert {room for room in ROOMS if room != "cli"} <= set(dir(unity)) & set(unity.__all__)


def test_no_object_calls_itself() -> None:
    """Calling an object goes through C, and the depth of C is bounded (from Python 3.12 on by a number of its own): a method that
    recurses with ``self(...)`` ends on a deep tree."""
    found = [
        f"{name(path)}:{node.lineno}"
        for path in FILES
        for node in nodes(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "self"
    ]
    assert found == []


OWN_IMPORT = re.compile(r"^from (unity[\w.]*) import (.+)$", re.MULTILINE)


def test_names_in_generated_files_exist() -> None:
    """Files that the package writes for its users import from it by full names, which no import of its own follows."""
    found = 0
    for path in sorted((ROOT / "unity").rglob("*.py")):
        for module, names in OWN_IMPORT.findall(path.read_text(encoding="utf-8")):
            for name in names.split(","):
                found += 1
                assert pkgutil.resolve_name(f"{module}:{name.split()[0]}") is not None, f"{path.name}: {module}.{name}"
    assert found >= 5


TYPE_OF = r"type\([^()]*\)"


def asks_for_classes(node: ast.AST) -> list[str]:
    """The classes that a test names with ``type(x)`` in place of ``isinstance``; none where a plain type is among them."""
    parts: list[ast.expr] = []
    if isinstance(node, ast.BoolOp):
        word = ast.Is if isinstance(node.op, ast.Or) else ast.IsNot
        tests = [v for v in node.values if isinstance(v, ast.Compare) and isinstance(v.ops[0], word)]
        asked = [ast.unparse(v.left) for v in tests]
        parts = [v.comparators[0] for v, a in zip(tests, asked) if re.fullmatch(TYPE_OF, a) and asked.count(a) > 1]
    elif isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
        if re.fullmatch(TYPE_OF, ast.unparse(node.left)) and isinstance(node.comparators[0], ast.Tuple):
            parts = node.comparators[0].elts
    names = [ast.unparse(part) for part in parts]
    return [] if any(hasattr(builtins, text.partition("(")[0]) for text in names) else names


def test_several_classes_are_asked_for_with_isinstance() -> None:
    found = [f"{name(path)}:{node.lineno}" for path in FILES for node in nodes(path) if asks_for_classes(node)]
    assert found == []
    wrong = ("type(x) in (A, B)", "type(x) is A or y or type(x) is B", "type(x) is not A and type(x) is not B")
    assert all(asks_for_classes(ast.parse(text, mode="eval").body) for text in wrong)
    right = ("type(x) in (int, float)", "type(x) is A", "type(x) is A or type(y) is A", "type(x) in TABLE")
    assert not any(asks_for_classes(ast.parse(text, mode="eval").body) for text in right)


def test_skipped_formatting_is_of_rows() -> None:
    """``fmt: skip`` closes what holds several rows: a line of its own is formatted like any other."""
    found = []
    for path in FILES:
        skipped = {n for n, line in enumerate(SOURCES[path].splitlines(), 1) if "# fmt: skip" in line}
        alone = [n for n in nodes(path) if isinstance(n, ast.stmt) and n.lineno == n.end_lineno]
        found += [f"{name(path)}:{n.lineno}" for n in alone if n.lineno in skipped]
    assert found == []


def test_no_class_is_far_from_its_base() -> None:
    """Three classes of the package in a line of inheritance, a node's kind among them; more are taken apart."""
    trees = {path: nodes(path)[0] for path in FILES}
    assert longest_chain(trees)[0] <= 3, longest_chain(trees)


def test_the_quick_tests_exist() -> None:
    listed = re.search(
        r"^QUICK := \$\(addprefix (\S+), ((?:.*\\\n)*.*)\)$", (ROOT / "Makefile").read_text(), re.MULTILINE
    )
    assert listed is not None
    paths = [ROOT / listed[1] / part for part in listed[2].replace("\\\n", " ").split()]
    assert len(paths) > 20
    assert [name(path) for path in paths if not path.exists()] == []
