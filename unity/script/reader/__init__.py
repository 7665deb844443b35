"""Script text to IR. Each level has a folder; in each there are files for expressions, forms (``T.x(...)``), statements, functions.

| read | both levels: `common` | tensor programs: `tir` | graph functions: `relax` |
|---|---|---|---|
| state | `reading`, `scope` | `program` | `graph` |
| expressions | `expr`, `names`, `calls` | `expr`, `access`, `calls`, `intrinsics` | `expr`, `operators` |
| types | `types` | `buffers` | |
| forms with a value | | `forms` | `forms`, `dps` |
| forms that are statements | | `statement_forms`, `memory_forms`, `blocks`, `frames` | |
| statements | `targets` | `statements`, `assign`, `loops` | `bindings`, `branches` |
| functions | `signature` | `function` | `function` |

`module.py` reads what is around the functions, and is where a text comes in. Not here: the grammar and its tree (`parser`), the
table of spellings (`spelling`).
"""
