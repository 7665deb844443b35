"""Output, logs and warnings of torch while it traces a model, held back: where tracing fails, our error says it in fewer words.

Not here: the error (``trace.py``).
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
import warnings
from collections.abc import Iterator

from ....support.options import bool_option


class _Collect(logging.Filter):
    """A filter that keeps records of warnings and errors and lets others pass."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def filter(self, record: logging.LogRecord) -> bool:
        """False for what is kept."""
        if record.levelno >= logging.WARNING:
            self.records.append(record)
        return record.levelno < logging.WARNING


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Hold back standard error, warnings and torch's log until the body is done; what a failing body said is dropped.

    ``UNITY_VERBOSE=1`` holds back nothing, nor does ``TORCH_LOGS``, with which torch's log was asked for.
    """
    if bool_option("UNITY_VERBOSE") or os.environ.get("TORCH_LOGS"):
        yield
        return
    output, collect = io.StringIO(), _Collect()
    loggers = list(logging.root.manager.loggerDict.items())  # torch gives many of its loggers handlers of their own
    handlers = [h for name, logger in loggers if name.startswith("torch") for h in getattr(logger, "handlers", ())]
    for handler in handlers:
        handler.addFilter(collect)
    try:
        with contextlib.redirect_stderr(output), warnings.catch_warnings(record=True) as warned:
            yield
    finally:
        for handler in handlers:
            handler.removeFilter(collect)
    sys.stderr.write(output.getvalue())
    for record in collect.records:
        logging.getLogger(record.name).handle(record)
    for found in warned:
        warnings.warn_explicit(found.message, found.category, found.filename, found.lineno, source=found.source)
