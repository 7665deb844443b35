"""Script of tensor programs from their parts: signature, allocations, nests of loops around one block."""

from __future__ import annotations

import textwrap


def nest(
    name: str, loops: str, extents: str, kinds: str, *body: str, init: str | tuple[str, ...] = (), where: str = ""
) -> str:
    """Loops ``loops`` ("i j") around a block whose iterators "vi vj" follow them; ``kinds`` as in ``T.axis.remap``."""
    variables = loops.split()
    iterators = ", ".join([f"v{v}" for v in variables])
    lines = [f"for {', '.join(variables)} in T.grid({extents}):", f'    with T.block("{name}"):']
    if len(variables) > 1:
        lines.append(f'        {iterators} = T.axis.remap("{kinds}", [{", ".join(variables)}])')
    else:
        axis = {"S": "spatial", "R": "reduce"}[kinds]
        lines[0] = f"for {variables[0]} in range({extents}):"
        lines.append(f"        {iterators} = T.axis.{axis}({extents}, {variables[0]})")
    lines += [f"        T.where({where})"] * bool(where)
    first = [init] if isinstance(init, str) else list(init)
    lines += ["        with T.init():", *[f"            {line}" for line in first]] * bool(first)
    return "\n".join([*lines, *[f"        {line}" for line in body]])


def alloc(name: str, shape: str, dtype: str = "float32") -> str:
    """A buffer of the function's own."""
    return f'{name} = T.alloc_buffer(({shape},), "{dtype}")'


def match(name: str, param: str, shape: str, dtype: str = "float32") -> str:
    """A parameter with a shape of symbols."""
    return f'{name} = T.match_buffer({param}, ({shape},), "{dtype}")'


def buffers(dtype: str = "float32", **shapes: str) -> str:
    """Parameters of one data type by name."""
    return ", ".join([f'{name}: T.Buffer(({shape},), "{dtype}")' for name, shape in shapes.items()])


def program(signature: str, *parts: str) -> str:
    """A module with one function ``main``."""
    body = "\n".join(['T.func_attr({"global_symbol": "main"})', *[part.strip("\n") for part in parts]])
    return f"@I.ir_module\nclass M:\n    @T.prim_func\n    def main({signature}):\n{textwrap.indent(body, ' ' * 8)}\n"
