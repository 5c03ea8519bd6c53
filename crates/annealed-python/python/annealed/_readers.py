"""Draws in the forms in which samplers return them, as an array (draws, d) for each chain."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, NoReturn, Optional, Sequence

import numpy as np

from ._arrays import floats, named_array
from ._evidence import vector_of

#: Names of the columns with the index of a chain, and with the number of a draw: of ArviZ, posterior (R) and CmdStanPy.
CHAIN = ("chain", ".chain", "chain__")
DRAW = ("draw", ".draw", "draw__", "iteration", ".iteration", "iter__")
#: Names of columns of weights.
WEIGHT = ("weight", "weights", "logwt", "log_weight", "log_weights", ".log_weight")
#: Draws of a chain that bridge sampling needs.
LEAST = 20
#: Name of Stan's column with 1 for a divergent transition.
DIVERGENT = "divergent__"
#: Share of draws that may be copies of others without a warning.
COPIES = 0.05
#: Standard errors by which the correlation of neighbouring chains has to exceed that of successive draws for a warning.
CLEAR = 6.0

SWAP = "if draws come first, as in emcee's get_chain() and CmdStanPy's draws(), pass draws.swapaxes(0, 1)"
LABELLED = "if the axes are right, pass InferenceData, or a table with a column chain"
GROUP = (
    "an array (chains, draws, ..) for each name: of NumPyro get_samples(group_by_chain=True); of a dict without chains "
    "{name: numpy.reshape(x, (chains, -1, *numpy.shape(x)[1:])) for name, x in draws.items()}, with chains = 1 for one chain; "
    "x.swapaxes(0, 1) of arrays (draws, chains, ..), and x[..., None] of scalars in 20 or more chains"
)
UNWEIGHTED = "expected equally weighted draws: see \"Weighted draws\" in docs/python.md"


def read(
    draws: Any, names: Optional[Sequence[str]], sizes: Mapping[str, Optional[int]], given: Any = None
) -> tuple[list[np.ndarray], bool]:
    """Returns an array (draws, d) for each chain, and whether the axes have names, so that they are certain.

    `names` are the variables to take, in this order, and `sizes` the numbers of each by the prior, None for a single one. `given`
    are the names that the user passed, if any.
    """
    if _is_list_of_tables(draws):
        return _tables(draws, names, sizes)
    if not isinstance(draws, Mapping):
        columns = _columns(draws)
        if columns is not None and isinstance(draws, np.ndarray) and draws.ndim > 1:
            return _mapping({name: draws[name] for name in columns}, names, sizes)
        if columns is not None:
            return _table(draws, columns, names, sizes)
    posterior = getattr(draws, "posterior", draws)
    variables = getattr(posterior, "data_vars", posterior)
    if isinstance(variables, Mapping):
        return _mapping(variables, names, sizes)
    if hasattr(draws, "logwt"):
        raise ValueError(f"invalid draws: got {type(draws).__name__} with weights, {UNWEIGHTED}")
    if given is not None:
        raise ValueError(
            f"invalid names: got {given!r}, expected none beside an array without names, whose columns are taken in their order; "
            "a dict or a table has names"
        )
    return _list(draws) if _has_unequal_chains(draws) else _array(draws)


def _columns(draws: Any) -> Optional[Sequence[Any]]:
    """Returns the names of the columns of a table or of a record array, None of anything else."""
    fields = getattr(getattr(draws, "dtype", None), "names", None)
    return fields or getattr(draws, "column_names", getattr(draws, "columns", None))


def _is_list_of_tables(draws: Any) -> bool:
    """Returns whether these are tables, one for each chain, as of Stan's files."""
    return isinstance(draws, (list, tuple)) and len(draws) > 0 and all(_columns(one) is not None for one in draws)


def _tables(
    tables: Sequence[Any], names: Optional[Sequence[str]], sizes: Mapping[str, Optional[int]]
) -> tuple[list[np.ndarray], bool]:
    """Reads a list of tables, of which each may hold several chains."""
    of_tables: list[Any] = [_columns(table) for table in tables]
    first = list(of_tables[0])
    for i, (table, columns) in enumerate(zip(tables, map(list, of_tables))):
        if names is None and columns != first:
            raise ValueError(
                f"invalid draws: got the columns {columns} in table {i}, expected those of table 0, {first}, or names=[..]"
            )
    return [chain for table in tables for chain in read(table, names, sizes)[0]], True


def _has_unequal_chains(draws: Any) -> bool:
    """Returns whether these are arrays (draws, d), one for each chain, of different lengths."""
    is_list = isinstance(draws, (list, tuple)) and all(np.ndim(chain) == 2 for chain in draws)
    return is_list and len({len(chain) for chain in draws}) > 1


def _list(draws: Sequence[Any]) -> tuple[list[np.ndarray], bool]:
    """Reads a list of arrays (draws, d), one for each chain, of which each may have its own length."""
    chains = [floats(f"draws of chain {i}", chain, 2) for i, chain in enumerate(draws)]
    if len({chain.shape[1] for chain in chains}) > 1:
        shapes = [chain.shape for chain in chains]
        raise ValueError(f"invalid draws: got chains of the shapes {shapes}, expected (draws, d) with the same d")
    return chains, True


def _array(draws: Any) -> tuple[list[np.ndarray], bool]:
    """Reads an array without names."""
    if isinstance(draws, (str, os.PathLike)):
        raise ValueError(f"invalid draws: got {draws!r}, expected what the file holds: pandas.read_csv(..) or numpy.load(..)")
    array, is_labelled = _labelled("draws", draws)
    if array.dtype == object and array.ndim == 0:
        kind = type(draws).__name__
        raise ValueError(
            f"invalid draws: got {kind}, expected an array, a table, a dict or InferenceData; of CmdStanPy fit.draws_pd(), of "
            "emcee sampler.get_chain().swapaxes(0, 1)"
        )
    array = floats("draws", array, 2, 3)
    if array.ndim == 2 and array.shape[0] <= array.shape[1]:
        raise ValueError(
            f"invalid draws: got an array of shape {array.shape}, expected (draws, d) with more draws than coordinates; pass "
            "draws.T if coordinates come first, and draws[..., None] if it is (chains, draws) of one coordinate"
        )
    array = array if array.ndim == 3 else array[None]
    if array.shape[2] == 0:
        raise ValueError(f"invalid draws: got an array of shape {array.shape}, expected at least one coordinate")
    if not is_labelled:
        _check_axes(array.shape, SWAP)
    return list(array), is_labelled


def _labelled(name: str, values: Any) -> tuple[np.ndarray, bool]:
    """Returns an array with the axes (chains, draws, ..) where their names tell them, and whether they do."""
    axes, array = getattr(values, "dims", None), _unwrapped(values)
    if not isinstance(axes, tuple) or not axes:
        return array, False
    if "draw" not in axes:
        raise ValueError(f"invalid draws: got the axes {axes} of {name}, expected chain and draw: pass the InferenceData itself")
    if "chain" not in axes:
        return np.moveaxis(array, axes.index("draw"), 0)[None], True
    return np.moveaxis(array, (axes.index("chain"), axes.index("draw")), (0, 1)), True


def _unwrapped(values: Any) -> np.ndarray:
    """Returns the array of a Series or DataArray, or of anything else that NumPy reads."""
    inner = getattr(values, "values", values)
    return named_array("draws", values if callable(inner) else inner)  # A tensor of PyTorch has a method of this name.


def _check_axes(shape: Sequence[int], remedy: str) -> None:
    """Refuses more chains than draws, and too few draws."""
    chains, draws = shape[:2]
    if chains > draws:
        raise ValueError(
            f"invalid draws: got the shape {tuple(shape)}, {chains} chains of {draws} draws, expected (chains, draws, ..) with "
            f"more draws than chains: {remedy}; {LABELLED}"
        )
    if draws < LEAST:
        raise ValueError(
            f"invalid draws of a chain: got {draws}, expected at least {LEAST}; the shape {tuple(shape)} is read as "
            f"(chains, draws, ..): {remedy}"
        )


def _missing(name: str, found: Sequence[Any]) -> NoReturn:
    """Refuses a name that the draws lack."""
    raise ValueError(f"invalid draws: got {tuple(found)}, expected {name} among them; names=[..] lists the parameters' names")


def _check_size(name: str, found: int, sizes: Mapping[str, Optional[int]]) -> None:
    """Refuses a variable with more or fewer numbers than the prior says."""
    expected = sizes.get(name, found) or 1
    if found != expected:
        raise ValueError(f"invalid draws of {name}: got {found} numbers a draw, expected {expected}, as its prior has")


def _mapping(
    variables: Mapping[Any, Any], names: Optional[Sequence[str]], sizes: Mapping[str, Optional[int]]
) -> tuple[list[np.ndarray], bool]:
    """Reads arrays (chains, draws, ..) by name, or arrays (draws,) of one chain."""
    for name in names or ():
        if name not in variables:
            _missing(name, list(variables))
    found = {name: _labelled(str(name), variables[name]) for name in (variables if names is None else names)}
    if not found:
        raise ValueError("invalid draws: got no variables")
    shapes = {name: array.shape for name, (array, _) in found.items()}
    is_labelled = all(labelled for _, labelled in found.values())
    is_one_chain = all(len(shape) == 1 for shape in shapes.values())
    # Draws without an axis of chains: vectors by the prior with two axes; arrays that agree in their first axis alone; or arrays of
    # two axes, of which the first may also hold the draws of vectors.
    lacks_chains = any(sizes.get(name) is not None and len(shape) == 2 for name, shape in shapes.items()) or (
        len({shape[:1] for shape in shapes.values()}) == 1 and len({shape[1:2] for shape in shapes.values()}) > 1
    )
    is_ambiguous = not sizes and all(len(shape) == 2 and shape[0] >= LEAST for shape in shapes.values())
    if (lacks_chains or is_ambiguous) and not is_labelled:
        raise ValueError(f"invalid draws: got the shapes {shapes}, expected {GROUP}")
    columns = []
    for name, (array, _) in found.items():
        array = floats(f"draws of {name}", array[None] if is_one_chain else array, *range(2, 9))
        columns.append(array.reshape(*array.shape[:2], -1))
        _check_size(str(name), columns[-1].shape[2], sizes)
    if len({column.shape[:2] for column in columns}) > 1:
        raise ValueError(f"invalid draws: got the shapes {shapes}, expected the same chains and draws: {GROUP}")
    if not is_labelled:
        _check_axes(columns[0].shape, GROUP)
    return list(np.concatenate(columns, axis=2)), is_labelled


def _table(
    table: Any, columns: Sequence[Any], names: Optional[Sequence[str]], sizes: Mapping[str, Optional[int]]
) -> tuple[list[np.ndarray], bool]:
    """Reads a table with a row for each draw by the names of its columns. A column tells chains apart, a vector theta is in
    theta[0], theta[1], .."""
    index = getattr(table, "index", None)
    if hasattr(table, "reset_index") and any(name is not None for name in getattr(index, "names", ())):
        table = table.reset_index()  # pandas, whose index may hold chain and draw
        columns = table.columns
    of = {str(name): name for name in columns}
    if len(of) == 1 and any(mark in name for name in of for mark in ";\t"):
        name = next(iter(of))
        raise ValueError(f"invalid draws: got one column {name!r}, expected one for each parameter: read it with sep=\";\" or tabs")
    vectors: dict[str, list[str]] = {}
    for name in of:
        vectors.setdefault(vector_of(name), []).append(name)

    def column(name: str) -> np.ndarray:
        return floats(f"draws of {name}", _unwrapped(table[of[name]]), 1)

    def elements(name: str) -> list[str]:
        found = [name] if name in of else sorted(vectors.get(name) or _missing(name, list(of)), key=_index)
        _check_size(name, len(found), sizes)
        return found

    if names is None:
        wanted = [name for name in of if name not in CHAIN + DRAW + WEIGHT and not name.endswith("__")]
        _check_indices(wanted)
    else:
        wanted = [element for name in names for element in elements(name)]
    if not wanted:
        raise ValueError(f"invalid draws: got the columns {tuple(of)}, expected one for each parameter")
    others = [name for name in of if name not in wanted]
    for name in WEIGHT:
        if name in others and np.ptp(column(name)) > 0:
            raise ValueError(f"invalid draws: got a column {name}, {UNWEIGHTED}")
    array = np.stack([column(name) for name in wanted], axis=1)
    if len(array) == 0:
        raise ValueError("invalid draws: got a table without rows, expected one for each draw")
    marker = next((name for name in CHAIN if name in others), None)
    labels = np.zeros(len(array)) if marker is None else _unwrapped(table[of[marker]])
    if labels.dtype == object:
        labels = labels.astype(str)  # Numbers and texts have no order.
    elif labels.dtype.kind == "f" and np.isnan(labels).any():
        raise ValueError(f"invalid draws: got NaN in the column {marker}, expected the chain of each draw")
    chains, of_row = np.unique(labels, return_inverse=True)
    rows = [np.flatnonzero(of_row == chain) for chain in range(len(chains))]
    for name in (name for name in DRAW if name in others):
        _check_order(name, column(name), rows)
    return [array[chain] for chain in rows], True


def _check_indices(columns: Sequence[str]) -> None:
    """Refuses elements of a vector whose indices do not rise, as those of sorted names: theta[1], theta[10], theta[2]."""
    last: dict[str, str] = {}
    for name in columns:
        vector, index = vector_of(name), _index(name)
        before = last.get(vector)
        # The elements of a matrix may follow one another by rows or by columns.
        if before is not None and len(index) == 1 == len(_index(before)) and index < _index(before):
            raise ValueError(
                f"invalid draws: got the column {name} after {before}, expected elements in the order of their indices: "
                f"names=[{vector!r}, ..] reads them in this order"
            )
        last[vector] = name


def _index(name: str) -> list[int]:
    """Returns the index of an element: [2, 1] of theta[2,1], and of Stan's theta.2.1."""
    return [int(i) for i in re.findall(r"\d+", name[len(vector_of(name)) :])]


def _check_order(name: str, draws: np.ndarray, rows: Sequence[np.ndarray]) -> None:
    """Refuses numbers of draws that do not rise within a chain."""
    for chain in rows:
        for i in np.flatnonzero(np.diff(draws[chain]) <= 0)[:1]:
            before, after = draws[chain[i : i + 2]]
            raise ValueError(
                f"invalid draws: got {after:.0f} after {before:.0f} in row {chain[i + 1]} of {name}, expected "
                "numbers that rise within a chain: a column chain tells chains apart, and shuffled rows have to be sorted"
            )


def doubts(chains: Sequence[np.ndarray], is_labelled: bool) -> list[tuple[str, str]]:
    """Returns the names and sentences of warnings about the draws (draws, d) of each chain."""
    factors = np.random.default_rng(0).random(chains[0].shape[1])
    found = [] if is_labelled else _exchanged(np.asarray(chains))
    keys = [(chain * factors).sum(axis=1) for chain in chains]  # equal for equal draws, else hardly ever
    starts = np.concatenate([key[np.diff(key, prepend=np.nan) != 0] for key in keys])
    copies = 1 - len(np.unique(starts)) / len(starts)
    if copies > COPIES and not _may_coincide(np.concatenate(chains)):
        text = (
            f"{100 * copies:.0f}% of the draws are copies of draws elsewhere, and count as new ones: the error may be too small; give "
            "each draw once, of weighted samples a subset without copies (\"Weighted draws\" in docs/python.md), and of emcee "
            "get_chain().swapaxes(0, 1), since flat=True separates a rejected move from the draw that it repeats"
        )
        found.append(("CopiedDraws", text))
    return found


def _may_coincide(rows: np.ndarray) -> bool:
    """Returns whether draws (draws, d) may be equal because their numbers have few digits."""
    steps = [next((10.0**-k for k in range(9) if (column == column.round(k)).all()), 0.0) for column in rows.T]
    if min(steps) == 0:
        return False
    # A column of deviation s takes about 3.5 s / step values, so two rows are equal with the product of step / (3.5 s).
    values = np.maximum(3.5 * rows.std(axis=0) / steps, 1)
    return bool(np.log(values).sum() < np.log(len(rows) / COPIES))


def divergences(draws: Any) -> int:
    """Returns the number of divergent transitions that the sampler recorded: in InferenceData's group sample_stats, or in Stan's
    column divergent__."""
    if _is_list_of_tables(draws):
        return sum(divergences(table) for table in draws)
    flags = getattr(getattr(draws, "sample_stats", None), "diverging", None)
    if flags is None and not isinstance(draws, Mapping):
        columns = _columns(draws)
        flags = draws[DIVERGENT] if columns is not None and DIVERGENT in list(columns) else None
    return 0 if flags is None else int(np.count_nonzero(_unwrapped(flags)))


def _exchanged(array: np.ndarray) -> list[tuple[str, str]]:
    """Warns if neighbouring chains correlate more than successive draws, as if the axes were exchanged."""
    chains, draws = array.shape[:2]
    if chains < 2:
        return []
    deviation = array.std(axis=(0, 1))
    unit = (array - array.mean(axis=(0, 1))) / np.where(deviation > 0, deviation, 1.0)
    along = (unit[:, 1:] * unit[:, :-1]).mean(axis=(0, 1))
    across = (unit[1:] * unit[:-1]).mean(axis=(0, 1))
    excess = across - np.maximum(along, 0)
    most = int(np.argmax(excess))
    if excess[most] < CLEAR / (min((chains - 1) * draws, chains * (draws - 1)) ** 0.5):
        return []
    text = (
        f"successive draws have a correlation of {along[most]:.2f}, and neighbouring chains one of {across[most]:.2f}, as "
        f"if axes were exchanged: the shape {array.shape} is read as (chains, draws, d); {SWAP}; {LABELLED}"
    )
    return [("ExchangedAxes", text)]
