"""The recursion limit of deep walks, alone and in several threads."""

from __future__ import annotations

import sys
import threading

import pytest

from unity.support.recursion import ON_C_STACK, deep_recursion, on_c_stack


def depth(levels: int) -> int:
    return 0 if levels == 0 else 1 + depth(levels - 1)


def test_the_limit_is_raised_and_put_back() -> None:
    before = sys.getrecursionlimit()
    with deep_recursion():
        with deep_recursion():
            assert depth(20_000) == 20_000
        assert depth(20_000) == 20_000
    assert sys.getrecursionlimit() == before


def test_a_walk_that_ends_does_not_lower_the_limit_of_others() -> None:
    before = sys.getrecursionlimit()
    first_ended, second_began = threading.Event(), threading.Event()
    found: list[int] = []

    def second() -> None:
        with deep_recursion():
            second_began.set()
            first_ended.wait(10)
            found.append(depth(20_000))

    thread = threading.Thread(target=second)
    with deep_recursion():
        thread.start()
        second_began.wait(10)
    first_ended.set()
    thread.join()
    assert found == [20_000]
    assert sys.getrecursionlimit() == before


def test_walks_inside_walks() -> None:
    before = sys.getrecursionlimit()
    with deep_recursion():
        raised = sys.getrecursionlimit()
        with deep_recursion():
            assert sys.getrecursionlimit() == raised
        assert sys.getrecursionlimit() == raised  # the inner walk ended, the outer goes on
        with deep_recursion(2 * raised):
            assert sys.getrecursionlimit() == 2 * raised
        assert sys.getrecursionlimit() >= raised
    assert sys.getrecursionlimit() == before


def test_an_error_in_an_inner_walk_leaves_the_outer_whole() -> None:
    before = sys.getrecursionlimit()
    with deep_recursion():
        try:
            with deep_recursion():
                raise ValueError
        except ValueError:
            pass
        assert sys.getrecursionlimit() > before
    assert sys.getrecursionlimit() == before


def test_frames_that_another_function_evaluates_keep_to_the_c_stack() -> None:
    torch = pytest.importorskip("torch")

    def refuses(graph: object, inputs: object) -> object:
        raise RuntimeError

    assert not on_c_stack()
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed):
        torch.compile(lambda x: x + 1, backend=refuses)(torch.ones(2))
    assert on_c_stack()  # torch leaves its evaluator behind
    with deep_recursion():
        assert depth(ON_C_STACK - 500) == ON_C_STACK - 500
        with pytest.raises(RecursionError):
            depth(20_000)
