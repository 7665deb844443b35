"""Chains of writes to parts of a tensor, as masks are made: folded where they start from a constant, and never doubled by inlining."""

import numpy as np

import unity
from unity import op
from unity.ir import build
from unity.ir.builder import BlockBuilder
from unity.ir.expr import Call, ShapeExpr, Var
from unity.ir.relation import tensor_type
from unity.ir.walk import collect
from unity.transform.relax.algebra.fold_constant import fold_constant
from unity.vm.virtual_machine import VirtualMachine

STEPS, SIZE = 10, 12


def chain(start):
    """A module that writes k to column k of a matrix, for k in 0..STEPS-1; ``start`` gives the matrix from the input."""
    builder = BlockBuilder()
    x = Var("x", tensor_type((size(SIZE), size(SIZE)), "float32"))
    with builder.function("main", [x]):
        builder.begin_dataflow()
        value = builder.emit(start(x))
        for k in range(STEPS):
            left = builder.emit(op.strided_slice(value, [1], [0], [k]))
            right = builder.emit(op.strided_slice(value, [1], [k + 1], [SIZE]))
            column = builder.emit(op.full(ShapeExpr((size(SIZE), size(1))), op.constant(np.array(k, "float32"))))
            value = builder.emit(op.concat([left, column, right], 1))
        made = builder.emit_output(builder.emit(op.add(value, x)))
        builder.end_dataflow()
        builder.emit_func_output(made)
    return builder.get()


def size(value):
    return build.const(value, "int64")


def test_what_starts_from_a_created_tensor_is_folded():
    mod = fold_constant(chain(lambda x: op.zeros(ShapeExpr((size(SIZE), size(SIZE))), "float32")))
    assert "R.concat" not in [c.op.name for c in collect(mod["main"], Call)]
    x = np.ones((SIZE, SIZE), "float32")
    wanted = x + np.array([*range(STEPS), *[0] * (SIZE - STEPS)], "float32")
    np.testing.assert_array_equal(VirtualMachine(unity.compile(mod))["main"](x).numpy(), wanted)


def test_inlining_does_not_double_a_program_with_every_link():
    x = np.ones((SIZE, SIZE), "float32")
    wanted = x + np.array([*range(STEPS), *[2] * (SIZE - STEPS)], "float32")
    executable = unity.compile(chain(lambda x: op.add(x, x)))
    np.testing.assert_array_equal(VirtualMachine(executable)["main"](x).numpy(), wanted)
