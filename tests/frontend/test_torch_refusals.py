"""Calls back into torch, their report, and models that are refused with a clear error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch_models import CNN, MLP, same  # noqa: E402

import unity  # noqa: E402
from unity.frontend import (  # noqa: E402
    FallbackWarning,
    ImportReport,
    detach_params,
    from_exported_program,
    from_fx,
    unity_backend,
)

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


ROOT = Path(__file__).resolve().parents[2]


@torch.library.custom_op("unity_test::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@doubled.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


LIBRARY = torch.library.Library("unity_test", "FRAGMENT")
LIBRARY.define("same(Tensor x) -> Tensor")
LIBRARY.impl("same", lambda x: x, "CompositeExplicitAutograd")


class Unknown(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        y = torch.ops.unity_test.doubled(self.inner(x))
        return torch.linalg.ldl_factor(y @ y.T)[0].abs() + torch.ops.unity_test.doubled(y).sum(), x.amax()


def test_unknown_operators_call_torch_and_are_reported() -> None:
    model, x = Unknown().eval(), torch.randn(3, 4)
    report = ImportReport()
    with pytest.warns(FallbackWarning, match="doubled"):
        mod = from_exported_program(torch.export.export(model, (x,)), report=report)
    text = mod.script()
    assert 'R.call_pure_packed("torch.ops.unity_test.doubled.default"' in text and "R.matmul" in text
    counts = {f.operator: f.count for f in report.fallbacks}
    assert counts == {"unity_test.doubled.default": 2, "aten.linalg_ldl_factor.default": 1}
    assert "test_torch_refusals.py" in report.fallbacks[0].places[0]
    for mode in ("native", "bytecode"):
        found = unity.VirtualMachine(unity.build(mod), exec_mode=mode)["main"](x)
        same([v.torch() for v in found], [v.detach() for v in model(x)])
    first = report.fallbacks[0]
    assert first.bytes == 2 * 3 * 4 * 4 and first.seconds > 0 and "96 B per call" in str(report)


def test_strict_refuses_unknown_operators() -> None:
    with pytest.raises(unity.UnityError, match="doubled") as caught:
        unity.compile(Unknown().eval(), example_inputs=(torch.randn(3, 4),), strict=True)
    assert caught.value.code == "E010"
    assert "torch.ops.unity_test.doubled(self.inner(x))" in str(caught.value)


def test_fallback_result_owns_its_memory() -> None:
    class View(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.ops.unity_test.same(x * 2) + 1

    x = torch.randn(3, 3)
    with pytest.warns(FallbackWarning):
        compiled = unity.compile(View(), example_inputs=(x,))
    same(compiled(x), View()(x))


@pytest.mark.filterwarnings("ignore")
def test_sizes_known_only_from_data() -> None:
    class Masked(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x[x > 0] * 2, torch.nonzero(x)

    compiled = unity.compile(Masked(), example_inputs=(torch.randn(9),))
    for seed in (1, 2):
        torch.manual_seed(seed)
        x = torch.randn(9)
        same(compiled(x), Masked()(x))


def code_of(*args: Any, **options: Any) -> str:
    with pytest.raises(unity.UnityError) as caught:
        unity.compile(*args, **options)
    return caught.value.code


def test_training_mode_names_the_modules() -> None:
    with pytest.raises(unity.UnityError, match=r"norm \(BatchNorm2d\)") as caught:
        unity.compile(CNN(), example_inputs=(torch.randn(2, 3, 16, 16),))
    assert caught.value.code == "E011"
    drop = torch.nn.Sequential(torch.nn.Dropout(0.5))
    with pytest.raises(unity.UnityError, match="training mode"):
        from_exported_program(torch.export.export(drop.train(), (torch.randn(3),)))


class Gate(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        if x.sum() > 0:
            return x
        return -x


def message_of(*args: Any, **options: Any) -> str:
    with pytest.raises(unity.UnityError) as caught:
        unity.compile(*args, **options)
    return str(caught.value)


def test_data_dependent_branch_names_line_and_module() -> None:
    model = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Sequential(Gate()))
    text = message_of(model, example_inputs=(torch.randn(3),))
    assert "E016" in text and "in 1.0" in text and "if x.sum() > 0:" in text
    assert "torch.cond" in text and "torch.compile" in text


def test_nothing_is_printed_beside_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    message_of(torch.nn.Sequential(torch.nn.BatchNorm1d(3).eval(), Gate()), example_inputs=(torch.randn(2, 3),))
    assert capfd.readouterr() == ("", "")


def test_packed_sequences_say_what_to_compile_instead() -> None:
    class Packed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.GRU(3, 2)

        def forward(self, x: Any, lengths: Any) -> Any:
            return self.layer(torch.nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False))[1]

    text = message_of(Packed().eval(), example_inputs=(torch.randn(4, 2, 3), torch.tensor([2, 4])))
    assert "E016" in text and "pack_padded_sequence(x, lengths" in text and "padded sequences" in text


def test_other_control_flow_says_what_to_write_instead() -> None:
    class Repeat(torch.nn.Module):
        def forward(self, x: Any, n: Any) -> Any:
            for _ in range(int(n)):
                x = x * 2
            return x

    class Checked(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            assert x.max() < 100
            return x

    assert "torch.while_loop" in message_of(Repeat(), example_inputs=(torch.randn(3), torch.tensor(2)))
    text = message_of(Checked(), example_inputs=(torch.randn(3),))
    assert "torch._assert_async" in text and text.count("assert x.max() < 100") == 1


class Part(torch.nn.Module):
    """A model that keeps something and hands its input to it."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Any) -> Any:
        return self.inner(x) if isinstance(self.inner, torch.nn.Module) else self.inner @ x


class Renamed(torch.nn.BatchNorm1d):
    """Its name does not say what it is."""


Renamed.__name__ = "Scaling"


@pytest.mark.parametrize(
    ("inner", "code", "text"),
    [
        (torch.jit.script(torch.nn.ReLU()), "E013", "inner is a torch.jit module"),
        (torch.nn.LazyLinear(3), "E015", "inner is a LazyLinear whose weight has no size yet"),
        (torch.eye(3).to_sparse_csr(), "E015", "inner is a sparse_csr tensor"),
        (torch.eye(3, device="meta"), "E015", "inner is a tensor on meta"),
        (Renamed(3), "E011", "inner (Scaling)"),
    ],
    ids=["jit", "lazy", "csr", "meta", "statistics"],
)
def test_parts_of_the_wrong_kind(inner: Any, code: str, text: str) -> None:
    message = message_of(Part(inner), example_inputs=(torch.randn(3, 3),))
    assert code in message and text in message


def test_sparse_and_quantised_tensors_inside_a_model_run_in_torch() -> None:
    class Inside(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            steps = torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)
            return x.to_sparse() @ x, steps.dequantize()

    class Given(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.to_sparse()

    x = torch.randn(3, 3)
    with pytest.warns(FallbackWarning, match="not dense"):
        compiled = unity.compile(Inside(), example_inputs=(x,))
    same(compiled(x), Inside()(x))
    text = message_of(Given(), example_inputs=(x,))
    assert "E015" in text and "sparse or quantised" in text and "return x.to_sparse()" in text


def test_models_of_the_wrong_kind() -> None:
    x = torch.randn(3)
    assert code_of(MLP().eval()) == "E013"
    assert "first.weight is a tensor on meta" in message_of(
        MLP().to("meta").eval(), example_inputs=(torch.randn(3, 8),)
    )
    assert code_of(torch.jit.script(torch.nn.ReLU()), example_inputs=(x,)) == "E013"
    quantised = torch.ao.quantization.quantize_dynamic(MLP().eval(), {torch.nn.Linear}, dtype=torch.qint8)
    assert "first is a quantised Linear" in message_of(quantised, example_inputs=(torch.randn(3, 8),))
    for wrong in (3, [(3, 8)], [((3, 8), "float31")]):
        with pytest.raises(unity.UnityError, match=r"E013|E015"):
            from_fx(torch.fx.symbolic_trace(MLP().eval()), wrong)  # type: ignore[arg-type]
    with pytest.raises(unity.UnityError, match="E013"):
        from_fx(3, [])  # type: ignore[arg-type]
    with pytest.raises(unity.UnityError, match="E013"):
        from_exported_program(3)
    with pytest.raises(unity.UnityError, match="the graph has the inputs x, input_info has 0 entries"):
        from_fx(torch.fx.symbolic_trace(MLP().eval()), [])
    with pytest.raises(unity.UnityError, match="expected an IRModule, got MLP"):
        detach_params(MLP())  # type: ignore[arg-type]
    assert 'torch.compile(f, backend="unity")' in message_of(lambda x: x, example_inputs=(x,))


@pytest.mark.parametrize(
    ("shapes", "text"),
    [
        (({5: torch.export.Dim("n")},), r"axis 5 of x, which has shape (3, 8)"),
        ({"x": {2: torch.export.Dim("n")}}, r"axis 2 of x"),
        (({0: torch.export.Dim("n")}, None), "dynamic_shapes has 2 entries, the example inputs are 1"),
        (({0: torch.export.Dim("n", min=5, max=9)},), "the example's x.shape[0] is 3, outside the range 5 to 9 of n"),
        (True, "dynamic_shapes is a bool"),
    ],
)
def test_dynamic_shapes_that_do_not_fit(shapes: Any, text: str) -> None:
    message = message_of(MLP().eval(), example_inputs=(torch.randn(3, 8),), dynamic_shapes=shapes)
    assert "E732" in message and text in message


class Sum(torch.nn.Module):
    def forward(self, x: Any, *more: Any) -> Any:
        return x + sum(more)


def test_dynamic_shapes_of_gathered_arguments_nested_and_flat() -> None:
    x, axes = torch.randn(3, 2), {0: torch.export.Dim("n")}
    for shapes in ((axes, axes, axes), (axes, (axes, axes))):
        f = unity.compile(Sum(), example_inputs=(x, x + 1, x + 2), dynamic_shapes=shapes)
        same(f(x[:2], x[:2], x[:2]), 3 * x[:2])
    assert "has 4 entries" in message_of(Sum(), example_inputs=(x, x + 1, x + 2), dynamic_shapes=(axes,) * 4)


def test_a_misspelt_argument() -> None:
    message = message_of(MLP(), example_input=(torch.randn(3, 8),))
    assert "E717" in message and "example_input" in message and "did you mean example_inputs" in message


def test_dynamic_shapes_of_what_has_its_sizes_or_a_single_row() -> None:
    x, shapes = torch.randn(1, 8), ({0: torch.export.Dim("n")},)
    assert "give an example with a larger one" in message_of(MLP().eval(), example_inputs=(x,), dynamic_shapes=shapes)
    program = torch.export.export(MLP().eval(), (x,))
    assert "E693" in message_of(program, dynamic_shapes=shapes)


@pytest.mark.parametrize(
    ("value", "code", "text"),
    [
        (torch.eye(3).to_sparse(), "E015", "the input input is a sparse_coo tensor"),
        (torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8), "E015", "quantised"),
        (torch.zeros(3, device="meta"), "E015", "on meta"),
        (np.zeros(3), "E962", "numpy.ndarray"),
    ],
    ids=["sparse", "quantised", "meta", "numpy"],
)
def test_example_inputs_of_the_wrong_kind(value: Any, code: str, text: str) -> None:
    for model, given, path in (
        (torch.nn.Identity(), value, "input"),
        (Pick(), {"a": [torch.ones(3), value]}, "values['a'][1]"),
    ):
        message = message_of(model, example_inputs=(given,))
        assert code in message and text.replace("input input", f"input {path}") in message


class Pick(torch.nn.Module):
    def forward(self, values: Any) -> Any:
        return values["a"][0] + 1, values["a"][1]


def test_example_inputs_that_do_not_fit() -> None:
    x = torch.randn(3, 8)
    model = MLP().eval()
    assert "too many positional arguments" in message_of(model, example_inputs=(x, x))
    assert "missing a required argument: 'x'" in message_of(model, example_inputs=(), example_kwargs={"y": x})
    assert "in first" in message_of(model, example_inputs=(torch.randn(3, 9),))
    assert unity.compile(model, example_inputs=x)(x).shape == (3, 4)
    shapes = ({1: torch.export.Dim("q")},)
    assert "q = 8" in message_of(model, example_inputs=(x,), dynamic_shapes=shapes)


def test_wrong_inputs_at_the_call() -> None:
    compiled = unity.compile(MLP().eval(), example_inputs=(torch.randn(3, 8),))
    x = torch.randn(3, 8)
    same(compiled(x=x), compiled(x))
    for wrong, text in (
        ((torch.randn(3, 9),), r"argument x.shape\[1\]: expected 8, got 9"),
        ((torch.randn(4, 8),), "expected 3, got 4"),
        ((x.double(),), "expected float32, got float64"),
        ((torch.eye(8).to_sparse(),), "the input x is a sparse_coo"),
        ((x.to("meta"),), "the input x is a tensor on meta"),
        ((torch.randn(3, 8, dtype=torch.cfloat),), "the input x is complex"),
        (([x],), r"the inputs are \(\[\*\]\), the model was exported for \(\*\)"),
        ((), "E017"),
        ((None,), "expected a tensor"),
    ):
        with pytest.raises(unity.UnityError, match=text):
            compiled(*wrong)


def test_calls_inside_of_transformations_of_torch() -> None:
    compiled = unity.compile(MLP().eval(), example_inputs=(torch.randn(3, 8),))
    with pytest.raises(unity.UnityError, match="E704"):
        torch.vmap(compiled)(torch.randn(2, 3, 8))


def test_modules_compile_without_importing_torch() -> None:
    program = """
import sys, unity
lines = ["@I.ir_module", "class M:", "    @R.function", "    def main(x: R.Tensor((2,), 'float32')):", "        return R.add(x, x)"]
mod = unity.script.parse("\\n".join(lines))
unity.compile(mod)
assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, cwd=ROOT)
    assert done.returncode == 0, done.stderr


class Addressed(torch.nn.Module):
    """Runs, but torch.export does not take it: a traced tensor has no address."""

    def forward(self, x: Any) -> Any:
        return x * 2 if x.data_ptr() else x


def test_what_only_export_refuses_is_left_to_python_by_torch_compile() -> None:
    model, x = Addressed().eval(), torch.randn(3)
    with pytest.raises(unity.UnityError) as caught:
        unity.compile(model, example_inputs=(x,))
    assert caught.value.code == "E016" and 'torch.compile(model, backend="unity")' in str(caught.value.help)
    same(torch.compile(model, backend=unity_backend)(x), x * 2)
