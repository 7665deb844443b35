"""What a call runs, it runs once: an error from inside is no reason to try another way."""

import pytest

torch = pytest.importorskip("torch")

import unity  # noqa: E402
from unity.support.errors import FFIError, FrontendError, VMError  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
ERRORS = {
    "VMError": VMError("E603", "from inside"), "FFIError": FFIError("E704", "from inside"), "E660": FrontendError("E660", "inside"),
    "TypeError": TypeError("from inside"), "AttributeError": AttributeError("from inside"), "KeyboardInterrupt": KeyboardInterrupt(),
}  # fmt: skip
RAISED: list[BaseException] = []
SEEN: list[int] = []


@torch.library.custom_op("unity_tests::watched", mutates_args=())
def watched(x: torch.Tensor) -> torch.Tensor:
    SEEN.append(1)
    if RAISED:
        raise RAISED[0]
    return x * 2


@watched.register_fake
def _(x):
    return torch.empty_like(x)


class Net(torch.nn.Module):
    def forward(self, x):
        return watched(x + 1) - 1


@pytest.fixture(scope="module")
def ways(tmp_path_factory):
    """Ways to call the model with a tensor."""
    x = torch.ones(2, 3)
    model = unity.compile(Net(), example_inputs=(x,))
    path = tmp_path_factory.mktemp("models") / "watched.unity"
    model.save(path)
    hooked = unity.compile(Net(), example_inputs=(x,))
    hooked.register_forward_hook(lambda *given: None)
    bytecode = unity.load_model(path, exec_mode="bytecode")
    return {
        "direct": model, "strided": lambda x: model(x.t().contiguous().t()), "array": lambda x: model(x.numpy()),
        "named": lambda x: model(x=x), "out": lambda x: model(x, out=torch.empty(2, 3)), "hooked": hooked,
        "loaded": unity.load_model(path), "bytecode": bytecode, "machine": model.vm["main"],
    }  # fmt: skip


NAMES = ("direct", "strided", "array", "named", "out", "hooked", "loaded", "bytecode", "machine")


@pytest.mark.parametrize("way", NAMES)
@pytest.mark.parametrize("error", [None, *ERRORS])
def test_once(ways, way, error):
    SEEN.clear()
    RAISED[:] = [] if error is None else [ERRORS[error]]
    try:
        if error is None:
            ways[way](torch.ones(2, 3))
        else:
            with pytest.raises(type(ERRORS[error]), match="inside" if error != "KeyboardInterrupt" else None):
                ways[way](torch.ones(2, 3))
    finally:
        RAISED.clear()
    assert len(SEEN) == 1


@pytest.mark.parametrize("way", ["direct", "hooked", "loaded", "bytecode", "machine"])
def test_nothing_runs_where_the_arguments_do_not_fit(ways, way):
    SEEN.clear()
    for wrong in (torch.ones(3, 2), torch.ones(2, 3, dtype=torch.float64), torch.ones(2)):
        with pytest.raises(VMError):
            ways[way](wrong)
    assert not SEEN


def test_an_error_from_a_call_inside_a_call(ways):
    """A function that calls the model with what does not fit: its error is not the outer call's."""
    inner = ways["direct"]

    def outer(x):
        SEEN.append(1)
        return inner(torch.ones(7))

    unity.register_func("tests.inner", outer, override=True)
    mod = unity.script.from_source(
        """
from unity.script import relax as R
@R.function
def main(x: R.Tensor((2, 3), "float32")):
    return R.call_packed("tests.inner", x, ty_args=R.Tensor((2, 3), "float32"))
"""
    )
    for mode in ("native", "bytecode"):
        SEEN.clear()
        with pytest.raises(VMError, match="expected"):
            unity.VirtualMachine(unity.build(mod), exec_mode=mode)["main"](torch.ones(2, 3))
        assert len(SEEN) == 1
