"""Conversion of what users have to arrays of NumPy."""

from __future__ import annotations

import operator
from typing import Any, Callable, Optional, Sequence

import numpy as np


def array_of(x: Any) -> np.ndarray:
    """Returns an array of anything that NumPy reads, and of tensors of PyTorch on any device. Refuses masked numbers."""
    for step in ("detach", "cpu"):
        if hasattr(x, step):
            x = getattr(x, step)()
    if hasattr(x, "toarray"):
        x = x.toarray()
    masked = int(np.ma.getmaskarray(x).sum()) if isinstance(x, np.ma.MaskedArray) else 0
    if masked:
        raise ValueError(f"got a masked array with {masked} masked numbers, expected none: drop them, or fill them by x.filled(..)")
    return np.asarray(x)


def named_array(name: str, x: Any) -> np.ndarray:
    """Returns `array_of(x)`; an error has the name of the argument."""
    try:
        return array_of(x)
    except ValueError as error:
        raise ValueError(f"invalid {name}: {error}") from None


def floats(name: str, x: Any, *dimensions: int) -> np.ndarray:
    """Returns a contiguous array of float64 with one of these numbers of dimensions."""
    array = named_array(name, x)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"invalid {name}: got an array of {array.dtype}, expected numbers")
    if array.ndim not in dimensions:
        expected = " or ".join(str(count) for count in dimensions)
        raise ValueError(f"invalid {name}: got an array of shape {array.shape}, expected {expected} dimensions")
    return np.ascontiguousarray(array, dtype=np.float64)


def bits(name: str, x: Any, units: Optional[int] = None) -> np.ndarray:
    """Returns a contiguous array (rows, units) of booleans, from zeros and ones of any type."""
    array = named_array(name, x)
    if array.ndim != 2 or (units is not None and array.shape[1] != units):
        expected = "(rows, units)" if units is None else f"(rows, {units})"
        raise ValueError(f"invalid {name}: got an array of shape {array.shape}, expected {expected}")
    if array.dtype.kind not in "fiub":
        raise ValueError(f"invalid {name}: got an array of {array.dtype}, expected zeros and ones")
    others = ~((array == 0) | (array == 1))
    if others.any():
        raise ValueError(
            f"invalid {name}: got {array[others].flat[0]}, expected zeros and ones; make them by a threshold, as X > 0.5"
        )
    return np.ascontiguousarray(array == 1)


def integer(name: str, x: Any, least: int = 0, most: int = 2**63 - 1) -> int:
    """Returns an integer of any type; 1e6 is one."""
    try:
        found = int(x) if isinstance(x, float) and x.is_integer() else operator.index(x)
    except TypeError:
        raise ValueError(f"invalid {name}: got {x!r}, expected an integer") from None
    if not least <= found <= most:
        raise ValueError(f"invalid {name}: got {found}, expected an integer from {least} to {most}")
    return found


def optional(convert: Callable[..., Any], name: str, x: Any, *more: Any) -> Any:
    """Converts what is not None."""
    return None if x is None else convert(name, x, *more)


def seed_of(x: Any) -> int:
    """Returns a seed."""
    return integer("seed", x, 0, 2**64 - 1)


def number(name: str, x: Any) -> float:
    """Returns a number of any type; a text is none."""
    try:
        if not isinstance(x, (str, bytes)):
            return float(x)
    except (TypeError, ValueError):
        pass
    raise ValueError(f"invalid {name}: got {x!r}, expected a number")


def refuse(name: str, array: np.ndarray, bad: np.ndarray, expected: str) -> None:
    """Raises a ValueError with the index of the first number that is bad, if there is one."""
    for index in np.argwhere(bad):
        place = ", ".join(str(i) for i in index)
        raise ValueError(f"invalid {name}: got {array[tuple(index)]} at {name}[{place}], expected {expected}")


#: Parameters that a sentence shows.
MOST = 6


class BatchFunction:
    """A user's functions of a batch (n, d) as one, which returns log densities (n,) and gradients (n, d) or None.

    With a number of `rows`, each call of the user's functions gets so many states, or a single one. The last ones are copies, if
    there are fewer: a library that compiles a function for the shape of its arguments compiles it once.
    """

    def __init__(
        self, name: str, function: Optional[Callable[..., Any]], gradient: Any = None, parameters: Optional[Sequence[str]] = None
    ) -> None:
        if function is None or not callable(function):
            raise ValueError(f"invalid {name}: got {function!r}, expected a function of an array (n, d)")
        if not (gradient is None or isinstance(gradient, bool) or callable(gradient)):
            raise ValueError(f"invalid gradient: got {gradient!r}, expected a function, or True if {name} returns a pair")
        self.name, self.function = name, function
        self.gradient = None if gradient is False else gradient
        self.epsilon = float(np.finfo(np.float64).eps)
        self.parameters = parameters
        self.instead_of_pair = "return the first of the two"
        #: The last value that was NaN or +inf, and its row.
        self.refused: Optional[tuple[float, np.ndarray]] = None
        #: Number of rows of each call, and of the copies in all calls.
        self.rows: Optional[int] = None
        self.padded = 0
        #: Whether the function returned arrays of JAX, which compiles for each shape.
        self.is_of_jax = False

    def __call__(self, x: np.ndarray) -> tuple[np.ndarray, Optional[np.ndarray]]:
        return self.once(x) if self.rows is None or len(x) == 1 else self.in_parts(x, self.rows)

    def in_parts(self, x: np.ndarray, rows: int) -> tuple[np.ndarray, Optional[np.ndarray]]:
        """Calls the functions with `rows` rows at once."""
        if len(x) == rows:
            return self.once(x)
        parts = [self.part(x[i : i + rows], rows) for i in range(0, len(x), rows)]
        values, slopes = zip(*parts)
        return np.concatenate(values), None if slopes[0] is None else np.concatenate(slopes)

    def part(self, x: np.ndarray, rows: int) -> tuple[np.ndarray, Optional[np.ndarray]]:
        """Calls the functions with up to `rows` rows, filled up by copies of the last one."""
        n, more = len(x), rows - len(x)
        self.padded += more
        values, slopes = self.once(np.concatenate([x, np.repeat(x[-1:], more, axis=0)]))
        return values[:n], None if slopes is None else slopes[:n]

    def once(self, x: np.ndarray) -> tuple[np.ndarray, Optional[np.ndarray]]:
        """Calls the functions with these rows."""
        found = self.function(x)
        if self.gradient is None:
            return self.values(found, x), None
        if self.gradient is not True:
            return self.values(found, x), self.checked("gradient", self.gradient(x), x.shape)
        if not (isinstance(found, (tuple, list)) and len(found) == 2):
            kind = type(found).__name__
            raise ValueError(f"{self.name} returned {kind}, expected a pair: log densities (n,) and gradients (n, d)")
        values, slopes = found
        return self.values(values, x), self.checked(f"{self.name}, second of the pair,", slopes, x.shape)

    def check(self, x: np.ndarray) -> None:
        """Calls the functions with a batch and with each of its states alone, so that a wrong shape shows before the run, and a
        value that depends on the other states."""
        together = self(x)[0]
        alone = np.concatenate([self(x[i : i + 1])[0] for i in range(len(x))])
        with np.errstate(invalid="ignore"):
            far = abs(together - alone) > 10 * self.epsilon**0.5 * (1 + abs(alone))
        for i in np.flatnonzero(far)[:1]:
            raise ValueError(
                f"{self.name} returned {together[i]:.6g} for a state among {len(x)}, and {alone[i]:.6g} for the same state alone; "
                "expected the same value: sum over axis=1, average over no states (axis=0), and use no random numbers"
            )

    def values(self, found: Any, x: np.ndarray) -> np.ndarray:
        """Returns log densities of states, and notes the precision of their numbers."""
        if isinstance(found, (tuple, list)) and len(found) == 2 and np.ndim(found[0]) == 1:
            raise ValueError(f"{self.name} returned a pair, expected n log densities (n,): {self.instead_of_pair}")
        self.is_of_jax |= type(found).__module__.partition(".")[0] in ("jax", "jaxlib")
        array = named_array(self.name, found)
        if array.dtype.kind == "f":
            self.epsilon = max(self.epsilon, float(np.finfo(array.dtype).eps))
        if array.dtype.kind in "iub" and array.shape == (len(x),):
            raise ValueError(f"{self.name} returned an array of {array.dtype}, expected floats: log densities are no whole numbers")
        values = self.checked(self.name, array, (len(x),))
        if not values.max(initial=-np.inf) < np.inf:
            row = int(np.argmin(values < np.inf))
            self.refused = float(values[row]), x[row].copy()
        return values

    def named(self, error: ValueError) -> ValueError:
        """Returns the error of a run that met a NaN or +inf, by the name of the function and its parameters."""
        if self.refused is None:
            return error
        value, row = self.refused
        names = self.parameters or [f"x[:, {i}]" for i in range(len(row))]
        shown = ", ".join(f"{name} = {x:.6g}" for name, x in zip(names[:MOST], row))
        more = f" and {len(row) - MOST} more" if len(row) > MOST else ""
        return ValueError(f"{self.name} returned {value} at {shown}{more}; expected a number, or -inf where the density is 0")

    @staticmethod
    def checked(name: str, found: Any, shape: tuple[int, ...]) -> np.ndarray:
        """Returns a contiguous array of float64, which has this shape."""
        array = named_array(name, found)
        if array.shape != shape or array.dtype.kind not in "fiub":
            raise ValueError(
                f"{name} returned an array of shape {array.shape} and type {array.dtype}, expected numbers of shape {shape}: it "
                f"gets {shape[0]} states at once, a row each"
            )
        return np.ascontiguousarray(array, dtype=np.float64)
