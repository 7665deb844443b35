"""What docs/operators.md promises holds for every value of a yes-or-no attribute and of one that is a word.

Values that no sample has are put into the first sample whose call stays right with it.
"""

import re

import numpy as np
import op_cases
import pytest
import test_gradients
from test_against_numpy import build, check

from unity.ir.op import OPS
from unity.support.errors import TypeRuleError
from unity.transform.relax.lowering.legalize_ops import legalize_ops


def refusal(name, inputs, attrs):
    """Why the call is no call; None if it is one."""
    try:
        build(name, inputs, attrs, False)
    except TypeRuleError as problem:
        return problem.message
    return None


def words(param, samples):
    """The values of an attribute, as the type rule tells them where it gets none of them."""
    if isinstance(param.default, bool):
        return [False, True]
    given = [attrs.get(param.name, param.default) for _, _, attrs in samples]
    if not any([isinstance(value, str) for value in given]):
        return []
    name, inputs, attrs = samples[0]
    said = re.search(
        rf"{param.name} must be (?:one of )?(.+), got", refusal(name, inputs, attrs | {param.name: "no word"}) or ""
    )
    listed = re.split(", | or ", said[1]) if said else []
    return [None if w == "None" else w for w in listed if " " not in w]  # a layout may be any of its letters


def variants(cases, part):
    """Samples for the values that ``cases`` leave out; the attributes and values that no sample takes."""
    made, refused = [], []
    for operator, info in OPS.items():
        samples = [case for case in cases if f"R.{case[0]}" == operator]
        for param in info.params if callable(getattr(info, part)) and samples else ():
            seen = [attrs.get(param.name, param.default) for _, _, attrs in samples]
            for value in words(param, samples) if param.kind == "attr" else ():
                if value in seen:
                    continue
                taken = [(n, i, a | {param.name: value}) for n, i, a in samples]
                found = next((case for case in taken if refusal(*case) is None), None)
                made += [found] if found else []
                refused += [] if found else [(operator, param.name, value)]
    return made, refused


NUMBERS = (1.5, 2.0, 300, -1, -129, float("inf"), float("nan"), True)


def narrow(value):
    """A sample in int8 in place of float."""
    if type(value) is tuple:
        return tuple([narrow(v) for v in value])
    return (
        np.nan_to_num(value).clip(-9, 9).astype("int8")
        if isinstance(value, np.ndarray) and value.dtype.kind == "f"
        else value
    )


def numbers(cases):
    """Every sample with a plain number, by operator and place: another number there, the tensors as they are and in int8."""
    made = {}
    for name, inputs, attrs in cases:
        for key, value in [*enumerate(inputs), *attrs.items()]:
            if type(value) in (int, float):
                made.setdefault(name, {})[key] = inputs, attrs
    return made


LOWERED, NOT_LOWERED = variants(op_cases.CASES, "lower")
DERIVED, NOT_DERIVED = variants(test_gradients.CASES, "grad")


def name_of(case):
    return f"{case[0]}-{'-'.join(map(str, case[2].values()))}"


def test_every_value_is_possible():
    assert NOT_LOWERED == NOT_DERIVED == []


@pytest.mark.parametrize("case", LOWERED, ids=map(name_of, LOWERED))
def test_lowering(case):
    check(*case)


@pytest.mark.parametrize("case", DERIVED, ids=map(name_of, DERIVED))
def test_gradient(case):
    try:
        test_gradients.check_gradient(*case)
    except TypeRuleError as problem:
        assert "the gradient needs" in problem.message


NUMBERED = numbers(op_cases.CASES)


@pytest.mark.parametrize("name", NUMBERED)
def test_other_numbers_lower_or_are_refused(name):
    """Refused by the type rule, in words that name the operator; what it takes has a lowering."""
    for key, (given, attrs) in NUMBERED[name].items():
        for inputs in (given, [narrow(v) for v in given]):
            for number in NUMBERS:
                put = dict(enumerate(inputs)) | attrs | {key: number}
                try:
                    mod, _ = build(name, [put.pop(k) for k in range(len(inputs))], put, False)
                except TypeRuleError as problem:
                    assert f"R.{name}" in problem.message, (key, number)
                else:
                    legalize_ops(mod)
