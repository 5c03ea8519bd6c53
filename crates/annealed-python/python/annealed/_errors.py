"""The exception of a run that Ctrl-C ended."""

from __future__ import annotations

from typing import Any, Optional


class Interrupted(KeyboardInterrupt):
    """The first Ctrl-C ended a run. `result` holds what was finished before: the result of the finished chains, or of the last
    finished round, with wider intervals. It is None if there was nothing yet. A second Ctrl-C raises a plain KeyboardInterrupt.

        try:
            run = annealed.rbm(W, a, b)
        except annealed.Interrupted as stopped:
            run = stopped.result
    """

    def __init__(self, text: str = "", result: Optional[Any] = None) -> None:
        super().__init__(text)
        self.result = result
