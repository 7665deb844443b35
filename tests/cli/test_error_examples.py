"""Examples of the error pages: each raises exactly the error of its page, and runs once it is corrected.

``EXAMPLES`` gives for each page the program around its example, as Python text, and the correction that takes the example's place.
``it`` is the first code of the example, ``parts`` are all; ``$`` stands for the first code inside the text. A correction that begins
with ``all:`` replaces the whole program; None stands where the right form is another program.
"""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import indent
from typing import Any

import numpy as np
import pytest

import unity
from unity.ir.interpret import run as interpreted
from unity.script import parse
from unity.support.errors import UnityError
from unity.target import GPU_PIPELINE

PAGES = Path(unity.__file__).parent / "support" / "error_docs"
TWO = 'A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), n: T.int64'
ROW = 'x: R.Tensor((2,), "float32")'


def prim(body: str, params: str = TWO) -> Any:
    return parse(f"@T.prim_func\ndef f({params}):\n{indent(body, '    ')}\n")


def module(body: str, params: str = ROW, more: str = "", head: str = "@R.function") -> Any:
    text = f"@I.ir_module\nclass Module:\n{indent(more, '    ')}\n    {head}\n    def main({params}):\n{indent(body, '        ')}\n"
    return parse(text)


def graph(expression: str, params: str = ROW, more: str = "") -> Any:
    return module(f"y = {expression}\nreturn y", params, more)


def run(mod: Any, *args: Any) -> Any:
    return unity.VirtualMachine(unity.compile(mod))["main"](*args)


class Found(Exception):
    """The first finding of a check, as an error."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


def kernel(
    body: str, params: str = 'A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")', threads: int = 32
) -> Any:
    """A kernel of one block: checked with all its threads."""
    inner = f"for tx in T.thread_binding({threads}, thread='threadIdx.x'):\n{indent(body, '    ')}"
    return checked(prim(inner, params))


def checked(func: Any) -> Any:
    arrays = [
        np.ones([int(n) for n in func.buffer_map[p].shape], "float32") for p in func.params if p in func.buffer_map
    ]
    report = unity.check_gpu(func, *arrays)
    for finding in report.findings:
        raise Found(finding.code)
    return report


def scheduled(rows: int = 8) -> tuple[Any, Any, list[Any]]:
    """A schedule of a copy of a matrix, its block and its loops."""
    sch = unity.Schedule(parse(COPY.replace("ROWS", str(rows))))
    block = sch.get_block("copy")
    return sch, block, sch.get_loops(block)


def interpret(func: Any) -> None:
    """The reference interpreter, with arrays of eight elements."""
    interpreted(func, None, np.ones(8, "float32"), np.ones(8, "float32"), 8)


def on_cuda(program: Any) -> Any:
    """A program compiled for a device with threads."""
    return unity.compile(program, target="cuda")


def lowered(body: str) -> Any:
    """A kernel of one warp through all passes."""
    inner = f"for tx in T.thread_binding(32, thread='threadIdx.x'):\n{indent(body, '    ')}"
    return GPU_PIPELINE(
        unity.IRModule({"main": prim(inner, 'A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")')})
    )


COPY = """
@T.prim_func
def main(A: T.Buffer((ROWS, 16), "float32"), B: T.Buffer((ROWS, 16), "float32")):
    for i, j in T.grid(ROWS, 16):
        with T.block("copy"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
"""
MATRIX = 'R.Tensor((4, 4), "float32")'
TAKEN = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def f(A: T.Buffer((4, 4), "float32")):
        for i, j in T.grid(4, 4): A[i, j] = A[i, j] + T.float32(1)
    @R.function(pure=False)
    def main(x: R.Tensor((4, 4), "float32")):
        y = R.exp(x)
        BODY
"""
PIPELINE = "from unity.transform import Pipeline\n"
BUILDER = """import unity.relax as relax
builder, x = unity.BlockBuilder(), relax.Var("x", relax.TensorType((2,), "float32"))
"""
ONE = '@R.function(private=True)\ndef f(a: R.Tensor((2,), "float32")):\n    return a\n'
COPIED = "@T.prim_func(private=True)\ndef f(A: T.Buffer((2,), 'float32'), B: T.Buffer((2,), 'float32')):\n    for i in range(2): B[i] = A[i]\n"
SAME = 'A: T.Buffer(("n",), "float32"), B: T.Buffer(("n",), "float32")'
SHARED = 'S = T.alloc_buffer((32,), "float32", scope="shared")\n'

EXAMPLES: dict[str, tuple[str, str | None]] = {
    # options and script
    "E101": ("prim(it)", "y = 3"),
    "E102": ("prim('a = A[0]\\nb = A[1]\\n' + it)", "y = T.max(a, b)"),
    "E103": ("prim(it)", "for i in range(4):\n    A[i] = T.float32(0)"),
    "E106": ("prim('A[0] = ' + it)", 'T.float32("inf")'),
    "E107": ("prim('x = A[0]\\n' + it + '\\nB[0] = x')", "g = x + 1"),
    "E110": ("module(it + '\\nreturn y')", "y = R.add(x, x)"),
    "E111": ("prim('B[0] = ' + it)", "T.exp(A[0])"),
    "E112": ("prim('a = A[0]\\nB[0] = ' + it)", "T.max(a, a)"),
    "E113": ("prim(it)", "A[n] = T.float32(0)"),
    "E114": ("parse('@T.prim_func\\n' + it + '\\n    T.evaluate(0)')", 'def f(A: T.Buffer((16,), "float32")):'),
    "E117": ("prim(it)", "A[0] = T.float32(1)"),
    "E118": ("module(it + '\\nreturn y')", 'y: R.Tensor((2,), "float32") = x'),
    "E119": ("parse(it)", '@R.function(pure=False)\ndef f(x: R.Object):\n    R.call_packed("f", x)'),
    "E123": ("from unity.script import tir as T\n$", "from unity.ir import build\nbuild.intrinsic('exp', build.const(1.0))"),
    "E124": ("graph(it)", "R.add(x, R.const(1.0))"),
    # types
    "E201": ("prim('B[T.ramp(0, 1, 4)] = ' + it)", "T.broadcast(T.float32(0), 4) + T.broadcast(T.float32(0), 4)"),
    "E202": ("prim('for i in range(8):\\n    B[i] = ' + it)", "A[i // 2]"),
    "E203": ("x = unity.ir.build.const(1.0)\n$", 'unity.ir.build.intrinsic("exp", x)'),
    "E204": ("prim('a = A[0]\\nb = A[1]\\nB[0] = ' + it)", "T.fma(a, b, a)"),
    "E205": ("graph(it, ROW + ', y: R.Tensor((2,), \"float32\")', more=ONE)", "cls.f(x)"),
    "E206": (BUILDER + "with builder.function('main', [x]):\n    builder.emit_func_output($)", 'builder.match_cast(x, relax.TensorType((2,), "float32"))'),
    "E210": ("graph(it)", "R.exp(R.const(4.0))"),
    "E211": ("graph(it, ROW + ', y: R.Tensor((2,), \"int32\")')", 'R.add(x, R.astype(y, "float32"))'),
    "E212": ("graph(it, 'x: R.Tensor((), \"float32\"), y: R.Tensor((2,), \"float32\")')", "R.matmul(R.reshape(x, (1, 1)), R.reshape(y, (1, 2)))"),
    "E213": ("graph(it, 'x: R.Tensor((3, 4), \"float32\"), y: R.Tensor((5, 4), \"float32\")')", "R.add(x, R.reshape(y, (5, 1, 4)))"),
    "E214": ("graph(it, 'x: R.Tensor((3, 4), \"float32\")')", "R.sum(x, axis=[1])"),
    "E215": ("graph(it)", "R.exp(x)"),
    "E216": ("graph(it, more=COPIED)", 'R.call_dps(cls.f, (x,), R.Tensor((2,), "float32"))'),
    "E217": (
        "from unity import te\nn = 4\nA = te.placeholder((n, n), name='A')\nk = te.reduce_axis((0, n))\nte.create_prim_func([A, $])",
        "te.compute((n,), lambda i: te.sum(A[i, k], axis=k))",
    ),
    "E218": ("unity.compile(module('n = T.int64()\\ny = ' + it + '\\nreturn y', 'x: ' + parts[-1]))", 'R.match_cast(x, R.Tensor((n,), "float32"))'),
    # verifier, interpreter, checker
    "E306": ("mod, other = graph('R.exp(x)'), graph('R.log(x)')\n$", "unity.ir.assert_structural_equal(mod, mod)"),
    "E305": ("mod, x = graph('R.exp(x)'), np.ones(2, 'float32')\n$", "run(mod, x)"),
    "E310": ("interpret(prim('for i in range(n):\\n    B[i] = $'))", "T.if_then_else(i + 1 < 8, A[i + 1], T.float32(0))"),
    "E312": ("interpret(prim('s = T.alloc_buffer((1,), \"float32\")\\ns[0] = T.float32(0)\\n' + it + '\\nB[0] = s[0]'))", "for i in range(8): s[0] = s[0] + A[i]"),
    "E328": ("unity.compile(prim(parts[0], SAME))", "for i in range(n): B[i] = A[i]"),
    "E351": ("unity.compile(prim(it, 'A: T.Buffer((9,), \"float32\")'))", "for i in range(8): A[i + 1] = A[i]"),
    "E360": ("kernel(SHARED + it + '\\n' + parts[1])", 'S[tx] = A[tx]\nT.tvm_storage_sync("shared")'),
    "E361": ("X = 'X: T.Buffer((4,), \"float32\"), Y: T.Buffer((4,), \"float32\")'\nchecked(prim(it, X))", 'for bx in T.thread_binding(4, thread="blockIdx.x"): Y[bx] = Y[bx] + X[bx]'),
    "E362": ("kernel(it)", 'T.tvm_storage_sync("shared")'),
    "E367": ("X = 'X: T.Buffer((2048,), \"float32\"), Y: T.Buffer((2048,), \"float32\")'\nchecked(prim(it, X))", 'for tx in T.thread_binding(1024, thread="threadIdx.x"): Y[tx] = X[tx]'),
    "E371": ("lowered(SHARED + it)", "if tx < 16: S[tx] = A[tx]\nif tx < 16: B[tx] = S[15 - tx]"),
    "E374": ("GPU_PIPELINE(unity.IRModule({'main': prim(it)}))", 'for i in T.thread_binding(8, thread="threadIdx.x"): B[i] = A[i]'),
    "E375": ("sch, block, (loop, _) = scheduled(2048)\n$\non_cuda(sch.mod)", 'outer, inner = sch.split(loop, [None, 256])\nsch.bind(outer, "blockIdx.x")\nsch.bind(inner, "threadIdx.x")'),
    "E377": ("lowered('W = T.alloc_buffer((32,), \"float32\", scope=\"warp\")\\n' + it + '\\nB[tx] = W[31 - tx]')", "W[tx] = A[tx]"),
    # schedules and passes
    "E425": ("sch, block, (i, j) = scheduled()\n$", 'sch.bind(i, "blockIdx.x"); sch.bind(j, "threadIdx.x")'),
    "E444": ("sch, block, (i, j) = scheduled()\nsch.transform_layout(block, ('read', 0), $)", "lambda i, j: (j, i)"),
    "E501": (PIPELINE + "$", 'Pipeline.parse("unroll_loop{max_copies=4}")'),
    "E532": ("unity.compile(prim(it + '\\n    B[i] = A[i]'))", 'for i in T.serial(n, annotations={"software_prefetch_panel": 1}):'),
    "E553": ("from unity.transform.dpl import PatternContext, is_op, wildcard\n$", 'with PatternContext() as ctx:\n    is_op("R.matmul")(wildcard(), wildcard()) >> is_op("R.add")(wildcard(), wildcard())'),
    "E556": (PIPELINE + "mod = graph('R.exp(x)')\n$", "Pipeline.parse(\"topological_sort{order='depth_first'}\")(mod)"),
    "E557": ("from unity.transform import bind_params\nmod, array = graph('R.exp(x)'), np.ones(2, 'float32')\n$", 'bind_params.with_options(params={"x": array})(mod)'),
    "E559": ("from unity.transform import gradient\nmod = graph('R.exp(x)')\n$", "mod = graph('R.sum(x)')\ngradient.with_options(func_name=\"main\")(mod)"),
    "E560": ("from unity.transform import to_mixed_precision\nmod = graph('R.exp(x)')\n$", 'to_mixed_precision.with_options(dtype="float16")(mod)'),
    "E690": ("from unity.transform import fuse_ops\nfunc = graph('R.exp(x)')['main']\n$", "fuse_ops(graph('R.exp(x)'))"),
    "E691": ("import unity.relax\n$", 'unity.relax.TensorType((4, 4), "float32")'),
    "E692": ("from unity.transform import PassContext\n$", 'PassContext(config={})'),
    "E693": ("mod = graph('R.exp(x)')\n$", "unity.compile(mod)"),
    "E694": ("from unity.script import tir as T\n$", "T.float32(1)"),
    "E695": ("mod = graph('R.exp(x)')\n$", "unity.explain_choices(unity.compile(mod))"),
    # values from outside
    "E612": ("vm = unity.VirtualMachine(unity.compile(graph('R.exp(x)', 'x: R.Tensor((1,), \"float32\")')))\nwith unity.testing.emulated_gpu():\n    $", 'vm["main"](unity.tensor([1.0]))'),
    "E701": ("graph('x', 'x: ' + it)", 'R.Tensor((4,), "float32")'),
    "E702": ("$", 'unity.tensor(np.zeros(3, "float32"))'),
    "E703": ("$", 'unity.device("cpu:0")'),
    "E704": ("$", "unity.tensor([[1, 2], [3, 4]])"),
    "E706": ("$", "unity.register_func('my.examples', print, override=True)\nunity.get_global_func('my.examples')"),
    "E707": ("from unity import register_c_func\np = 4096\n$", 'register_c_func("f", p, "(const float32*, float32*, int64) -> int32")'),
    "E715": ("import unity.tir as tir\nfunc = prim('B[0] = A[0, 0]', 'A: T.Buffer((16, 4), \"float32\"), B: T.Buffer((8,), \"float32\")')\na = func.params[0]\n$", 'func.specialize({a: tir.decl_buffer((16, 4), "float32")})'),
    "E743": ("import unity.relax as relax\nx = relax.Var('x', relax.TensorType((2,), 'float32'))\n$", "relax.Tuple([x])"),
    "E744": ("import unity.relax as relax\nmod = graph('R.exp(x)')\n$", 'relax.transform.DeadCodeElimination(["main"])(mod)'),
    "E745": ("import unity.relax as relax\nmod = graph('R.nn.conv2d(x, w)', 'x: R.Tensor((1, 4, 8, 8), \"float32\"), w: R.Tensor((4, 4, 3, 3), \"float32\")')\n$", 'relax.transform.ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]})(mod)'),
    "E748": ("module(it + '\\nreturn x', 'x: R.Tensor((\"n\",), \"float32\")')", 'R.func_attr({"tir_var_upper_bound": {"n": 1024}})'),
    "E749": ("mod = module(it + '\\ny = R.exp(x)\\nreturn y', 'x: R.Tensor((\"n\",), \"float32\")')\nrun(mod, np.ones(9, 'float32'))", 'R.func_attr({"tir_var_upper_bound": {"n": 9}})'),
    "E750": ("from unity.transform import lazy_transform_params\nmod = unity.IRModule({'main_transform_params': graph('R.exp(x)')['main']})\n$", 'lazy_transform_params.with_options(extra_get_item_params=(1, 2))(mod)'),
    "E980": ("model, x = graph('R.exp(x)'), np.ones(2, 'float32')\n$", None),
    "E981": ("mod = graph('R.exp(x)')\n$", 'unity.compile(mod, choose="analytic")'),
    "E982": ("vm = unity.VirtualMachine(unity.compile(graph('R.exp(x)')))\nx, y = np.ones((2, 2), 'float32')\n$", 'vm["main"](x, out=y)'),
    "E983": ("vm = unity.VirtualMachine(unity.compile(graph('R.shape_of(x)')))\nx, y = np.ones(2, 'float32'), np.ones(2, 'float32')\n$", 'vm["main"](x)'),
    "E986": ("from unity.transform import quantize_weights\nmod = graph('R.exp(x)')\n$", "quantize_weights.with_options(bits=8)(mod)"),
    "E988": ("from unity.transform import winograd\nmod = graph('R.exp(x)')\n$", "winograd.with_options(tile=4)(mod)"),
    "E001": ("name, value = it.split('=')\nmonkeypatch.setenv(name, value)\nfrom unity.support.options import int_option\nint_option(name)", "UNITY_VERIFY=1"),
    "E339": ("parse(TAKEN.replace('BODY', it.replace('; ', '\\n        ').replace('(f,', '(cls.f,').replace('...', MATRIX)))", "w = R.call_inplace(f, (y,), ..., inplace_indices=[0]); return w"),
    "E373": ("GPU_PIPELINE(unity.IRModule({'main': prim(it + '\\n    ' + parts[1].replace('...', 'A[tx % 8] = T.float32(1)') + '\\n    ' + parts[2].replace('...', 'B[tx % 8] = T.float32(1)'))}))", None),
    "E440": ("sch = unity.Schedule(prim(it + ':\\n    with T.block(\"b\"):\\n        vi = T.axis.spatial(16, ' + parts[1].partition(' = ')[2] + ')\\n        A[vi] = B[vi]', TWO.replace('8', '16')))\ni, j = sch.get_loops(sch.get_block('b'))\nsch.blockize(j)", None),
    "E505": ("from unity.transform import module_pass\n$\ndef dead_code(mod):\n    return mod", '@module_pass(name="my.dead_code")'),
    "E716": ("import io\nopen = lambda name: io.StringIO('{\"root\": 1}')\n$", "unity.ir.load_json(unity.ir.save_json(graph('R.exp(x)')))"),
    "E717": ("$", 'unity.relax.dpl.is_op("relax.add")'),
    "E734": ("with unity.testing.emulated_gpu():\n    $", "unity.tensor([1.0], device=unity.cuda(0))"),
    "E742": ("from unity.relax.expr_functor import PyExprMutator, mutator\n@mutator\nclass Mine(PyExprMutator):\n    $", "def visit_call_(self, call): ..."),
    "E746": ("from unity.ir.instrument import pass_instrument\n@pass_instrument\nclass Mine:\n    def $(self, mod, info): ...", "run_before_pass"),
}  # fmt: skip


def codes(code: str) -> list[str]:
    """The pieces of code in the example of a page."""
    text = (PAGES / f"{code}.md").read_text(encoding="utf-8")
    example = re.search(r"\*\*Example\.\*\* (.+?)\n\n\*\*Fix", text, re.S) or re.search(
        r"\*\*Example\.\*\*\n\n(.+?)\n\n\*\*Fix", text, re.S
    )
    assert example is not None, f"{code} has no example"
    blocks = re.findall(r"```\w*\n(.+?)```", example[1], re.S)
    return blocks or [re.sub(r"\s*\n\s*", " ", part) for part in re.findall(r"`([^`]+)`", example[1])]


def attempt(code: str, monkeypatch: pytest.MonkeyPatch, correction: str | None = None) -> None:
    """Run the example of a page, or its correction."""
    program = EXAMPLES[code][0]
    parts = codes(code)
    it = parts[0] if correction is None else correction
    exec(program.replace("$", it), {**globals(), "it": it, "parts": [it, *parts[1:]], "monkeypatch": monkeypatch})


@pytest.mark.parametrize("code", EXAMPLES)
def test_examples_raise_the_error_of_their_page(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises((UnityError, Found)) as raised:
        attempt(code, monkeypatch)
    assert raised.value.code == code, raised.value


@pytest.mark.parametrize("code", [code for code, (_, right) in EXAMPLES.items() if right])
def test_corrected_examples_run(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt(code, monkeypatch, EXAMPLES[code][1])


NOT_RUN = {
    **dict.fromkeys(["E010", "E012", "E016", "E655", "E660", "E662", "E663", "E664", "E732", "E733", "E962", "E987"], "torch's models"),
    **dict.fromkeys(["E331", "E348", "E376", "E383", "E448", "E450", "E535", "E555", "E740", "E741", "E747"], "the example says it in words"),
    **dict.fromkeys(["E451", "E736", "E985"], "another machine or process"), "E712": "torch's tensors",
}  # fmt: skip
"""Examples that tests of their own room run, and why not here."""


def test_every_example_is_run() -> None:
    shown = {page.stem for page in PAGES.glob("*.md") if "**Example.**" in page.read_text(encoding="utf-8")}
    assert shown == {*EXAMPLES, *NOT_RUN}
    assert not {*EXAMPLES} & {*NOT_RUN}
