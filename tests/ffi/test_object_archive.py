"""Several objects in one byte string, and LLVM in several threads."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from unity.ffi.machine_code.llvm import CompileOptions, compile_ir
from unity.ffi.machine_code.objects import join_objects, split_objects
from unity.support.errors import FFIError

ADD = "define i32 @f{0}(i32 %a) {{\n  %b = add i32 %a, {0}\n  ret i32 %b\n}}\n"


@pytest.mark.parametrize("objects", [[b"\x7fELF one"], [b"\x7fELF one", b"\x7fELF", b"\x7fELF three" * 99], []])
def test_what_is_joined_splits(objects):
    assert split_objects(join_objects(objects)) == objects


@pytest.mark.parametrize("cut", [1, 4, 9])
def test_a_truncated_archive_is_an_error(cut):
    with pytest.raises(FFIError, match="E709"):
        split_objects(join_objects([b"\x7fELF one", b"\x7fELF"])[:-cut])


def test_threads_compile_at_the_same_time():
    texts = [ADD.format(n) for n in range(40)] + ["define nothing"] * 8
    options = CompileOptions(pipeline="O2")

    def compiled(text):
        try:
            return compile_ir(text, options, use_cache=False)
        except FFIError as error:
            return error.code

    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(compiled, texts))
    assert results[40:] == ["E708"] * 8
    assert results[:40] == [compiled(text) for text in texts[:40]]
