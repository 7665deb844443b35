"""``torch.distributions`` inside of models, against torch: densities, samples, and what is no parameter of a distribution."""

import pytest

torch = pytest.importorskip("torch")
from torch import distributions as D  # noqa: E402

import unity  # noqa: E402
from unity.support.errors import VMError  # noqa: E402


class Expression(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("density", lambda x: D.Independent(D.Normal(x, x.exp()), 1).log_prob(x * 2)),
        ("divergence", lambda x: D.kl_divergence(D.Normal(x, x.exp()), D.Normal(torch.zeros(5), torch.ones(5)))),
        ("classes", lambda x: (D.Categorical(logits=x).entropy(), D.Categorical(probs=x.softmax(-1)).log_prob(x.argmax(-1)))),
        ("interval", lambda x: D.Uniform(0, 1).log_prob(x.sigmoid()) + D.Beta(x.exp(), 2.0).log_prob(x.sigmoid())),
        ("transformed", lambda x: D.TransformedDistribution(D.Normal(x, 2.0), [D.TanhTransform()]).log_prob(x.sigmoid())),
        ("matrices", lambda x: (D.MultivariateNormal(x, covariance_matrix=torch.eye(5) + x.exp().mean()).log_prob(x * 2),
                                D.MultivariateNormal(x, precision_matrix=torch.eye(5) + x.exp().mean()).entropy())),
        ("sample", lambda x: D.Normal(x, x.exp()).rsample() + D.Bernoulli(logits=x).sample()),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_distributions(name, function) -> None:
    model, rows = Expression(function), torch.export.Dim("rows", min=1)
    f = unity.compile(model, example_inputs=(torch.randn(3, 5),), dynamic_shapes=({0: rows},))
    for n in (1, 3, 8):
        x = torch.randn(n, 5)
        torch.manual_seed(n)
        found = f(x)
        torch.manual_seed(n)
        torch.testing.assert_close(found, model(x), rtol=1e-4, atol=1e-5)


def test_a_parameter_that_is_not_valid_is_an_error_as_in_torch() -> None:
    model = Expression(lambda x: D.Normal(0.0, x, validate_args=True).log_prob(x))  # torch.compile changes the default
    f = unity.compile(model, example_inputs=(torch.ones(3),))
    with pytest.raises(ValueError, match="scale"):
        model(-torch.ones(3))
    with pytest.raises(VMError, match=r"E635.*distribution is not valid"):
        f(-torch.ones(3))


@pytest.mark.parametrize(
    "scale", [[[1.0, 0.5], [0.0, 1.0]], [[1.0, 2.0], [2.0, 1.0]]], ids=["not symmetric", "not positive"]
)
def test_a_matrix_that_is_not_valid_is_an_error_as_in_torch(scale) -> None:
    model = Expression(lambda x: D.MultivariateNormal(torch.zeros(2), x, validate_args=True).log_prob(torch.ones(2)))
    f = unity.compile(model, example_inputs=(torch.eye(2),))
    torch.testing.assert_close(f(2 * torch.eye(2)), model(2 * torch.eye(2)))
    with pytest.raises(ValueError, match="covariance_matrix"):
        model(torch.tensor(scale))
    with pytest.raises(VMError, match=r"E635.*distribution is not valid"):
        f(torch.tensor(scale))


def test_a_number_of_the_data_beside_a_distribution() -> None:
    model = Expression(lambda x: D.Normal(x, x.exp(), validate_args=True).log_prob(x * int((x > 0).sum())))
    f = unity.compile(model, example_inputs=(torch.randn(7),))
    for scale in (1.0, -0.5):
        x = torch.linspace(-1, 3, 7) * scale
        torch.testing.assert_close(f(x), model(x))
    with pytest.raises(VMError, match="E635"):
        f(torch.full((7,), float("nan")))
