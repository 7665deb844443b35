"""The search for schedules (``import unity.meta_schedule as ms``), with TVM's names, listed in ``__init__.pyi``.

``core`` has what the parts hand each other: the context of a task, a candidate, the arguments of a program.
"""

from ..support.lazy import stub_names

__getattr__, __dir__, __all__ = stub_names(__name__)
