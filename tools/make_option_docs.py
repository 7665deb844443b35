"""The text of ``docs/options.md``: the environment options of ``unity/support/options.py``."""

from __future__ import annotations

from unity.support.options import OPTIONS


def build() -> str:
    """The page."""
    lines = [
        "# Options",
        "",
        "Environment variables, made by `tools/make_docs.py` from `unity/support/options.py`. An empty value means the default. "
        "Other text where a number is expected is error E001.",
        "",
        "| option | kind | default | meaning |",
        "|---|---|---|---|",
    ]
    kinds = {bool: "yes/no", int: "number", str: "text"}
    for option in OPTIONS.values():
        default = {True: "yes", False: "no", "": "empty"}.get(option.default, str(option.default))  # type: ignore[call-overload]
        default = str(option.default) if type(option.default) is int else default
        lines.append(f"| `{option.name}` | {kinds[option.kind]} | {default} | {option.doc} |")
    lines += ["", "For yes/no options `0`, `no`, `false` and `off` mean no, anything else yes."]
    return "\n".join(lines) + "\n"
