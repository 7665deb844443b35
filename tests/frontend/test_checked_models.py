"""Small torch models through every pass of both pipelines under translation validation, and a wrong pass among them."""

import pytest

import unity
from unity.ir import Call, IRModule, op, replace, rewrite
from unity.support.errors import PassError
from unity.transform import DEFAULT_PIPELINE, CheckInstrument, PassContext, function_pass
from unity.transform.tir.pipeline import CPU_PIPELINE

torch = pytest.importorskip("torch")


class Convolutions(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(2, 3, 3, padding=1, bias=False), torch.nn.BatchNorm2d(3)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2)
        self.head = torch.nn.Linear(3, 4)

    def forward(self, x):
        h = torch.nn.functional.max_pool2d(torch.relu(self.norm(self.conv(x))), 2)
        return self.head(h.mean((2, 3)))


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.norm = torch.nn.Embedding(7, 8), torch.nn.LayerNorm(8)
        self.query, self.key, self.value = [torch.nn.Linear(8, 8) for _ in range(3)]

    def forward(self, tokens):
        h = self.norm(self.embed(tokens))
        scores = self.query(h) @ self.key(h).transpose(1, 2) / 8**0.5
        return torch.nn.functional.gelu(torch.softmax(scores, -1) @ self.value(h)) + h


def imported(model, x, **shapes):
    torch.manual_seed(0)
    exported = torch.export.export(model().eval(), (x,), **shapes)
    mod = unity.frontend.from_exported_program(exported)
    return mod[0] if isinstance(mod, tuple) else mod


MODELS = {
    "convolutions": lambda: imported(Convolutions, torch.randn(1, 2, 4, 4)),
    "attention": lambda: imported(
        Attention, torch.ones(2, 3, dtype=torch.int64),
        dynamic_shapes=({0: torch.export.Dim("batch", max=9), 1: torch.export.Dim("length", max=99)},)),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_every_pass_agrees(name):
    checker = CheckInstrument(inputs=1, steps=2_000_000)  # programs with their tiles are many steps
    with PassContext(checker):
        graph = DEFAULT_PIPELINE(MODELS[name]())
        CPU_PIPELINE(IRModule(graph.prim_funcs(), {}, {}))
    judged = [r for r in checker.records if r.verdict == "agrees"]
    left = {r.function for r in checker.records if r.verdict != "agrees"}
    assert len(judged) > 20 and left <= {"attention"}, "\n".join(
        map(str, checker.records)
    )  # whole blocks are many steps
    assert {"attention"} & left == {r.function for r in judged} & left  # judged once its empty parts are gone


@function_pass(name="wrong_epsilon_of_norms")
def wrong_epsilon(fn):
    """layer_norm with another epsilon."""
    norm = op("R.nn.layer_norm")
    return rewrite(fn, {Call: lambda c: replace(c, attrs={**c.attrs, "epsilon": 0.5}) if c.op is norm else c})


def test_a_wrong_pass_is_named_and_the_model_made_small(tmp_path):
    pipeline = DEFAULT_PIPELINE.insert_after("eliminate_common_subexpr", wrong_epsilon)
    with (
        PassContext(CheckInstrument(inputs=1, folder=tmp_path)),
        pytest.raises(PassError, match="wrong_epsilon_of_norms"),
    ):
        pipeline(MODELS["attention"]())
    (file,) = tmp_path.iterdir()
    before = file.read_text().split("BEFORE = ")[1].split("AFTER = ")[0]
    assert before.count(" = R.") <= 2 and "layer_norm" in before, before
