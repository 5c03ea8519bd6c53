"""The line that shows the progress of a run, in a terminal or a notebook."""

from __future__ import annotations

import shutil
import sys
import time
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Optional

#: Seconds before a line appears.
PATIENCE = 1.0

Show = Callable[[str, int, int], Any]


def is_interactive() -> bool:
    """Returns whether a person looks at standard error."""
    return "ipykernel" in sys.modules or bool(getattr(sys.stderr, "isatty", lambda: False)())


class Line:
    """A line that is written over itself."""

    def __init__(self) -> None:
        self.begun, self.width = time.monotonic(), 0

    def __call__(self, text: str, done: int, total: int) -> None:
        if time.monotonic() - self.begun > PATIENCE:
            text = text[: shutil.get_terminal_size((100, 24)).columns - 1]
            sys.stderr.write("\r" + text.ljust(self.width))
            sys.stderr.flush()
            self.width = len(text)

    def clear(self) -> None:
        """Removes the line."""
        if self.width:
            sys.stderr.write("\r" + " " * self.width + "\r")
            sys.stderr.flush()


@contextmanager
def shown(progress: Any) -> Iterator[Optional[Show]]:
    """Yields the function that shows progress: the user's, a line, or None. A run calls it at most ten times a second."""
    if not (callable(progress) or progress in (None, True, False)):
        raise ValueError(f"invalid progress: got {progress!r}, expected True, False, or a function of a text and two numbers")
    if callable(progress):
        yield progress
    elif progress or (progress is None and is_interactive()):
        line = Line()
        try:
            yield line
        finally:
            line.clear()
    else:
        yield None
