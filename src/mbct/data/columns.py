"""Columns in memory: opened from any frame, read as numbers or numbered by value, and coded by bins.

A frame is what narwhals reads eagerly (pandas, polars, pyarrow, modin …) or a two-dimensional numpy array,
whose columns are then called ``x0``, ``x1`` and so on.
"""

import decimal
import os
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt
from narwhals.exceptions import NarwhalsError
from narwhals.stable.v2.dtypes import DType

from mbct.errors import DataError, ParameterError
from mbct.model.bins import CategoryBins, CodeMatrix, Feature, FeatureBins, NumberBins
from mbct.model.encoding import as_float
from mbct.training.binning import BinningOptions, distinct_numbers, fit_category_bins, fit_number_bins, fit_score_bins
from mbct.validation import FloatArray


@dataclass(frozen=True)
class Columns:
    """Named columns of equal length: narwhals series or numpy arrays."""

    by_name: Mapping[str, Any]
    n_rows: int

    @property
    def names(self) -> list[str]:
        """Column names in the frame's order."""
        return list(self.by_name)

    def __contains__(self, name: object) -> bool:
        return name in self.by_name

    def column(self, name: str) -> Any:
        """The column called ``name``; an error that lists what there is, where it is missing."""
        if name not in self.by_name:
            raise DataError(f"column {name!r} is missing; the data has {listing(self.by_name)}")
        return self.by_name[name]

    def name_of(self, index_or_name: int | str) -> str:
        """Name of a column given by its name or by its number among these columns; negative ones count from the end.

        >>> columns = Columns({"age": np.ones(1), "p": np.ones(1)}, 1)
        >>> columns.name_of(0), columns.name_of(-1), columns.name_of("pctr")
        ('age', 'p', 'pctr')
        """
        if isinstance(index_or_name, str):
            return index_or_name
        if not -len(self.by_name) <= index_or_name < len(self.by_name):
            known = f"{len(self.by_name)} feature(s), {listing(self.by_name)}"
            raise DataError(f"column {index_or_name} is missing: the data has {known}")
        return self.names[index_or_name]

    def numpy(self, name: str) -> np.ndarray[Any, Any]:
        """The column called ``name`` as a numpy array."""
        column = self.column(name)
        return column if isinstance(column, np.ndarray) else np.asarray(column.to_numpy())

    def require(self, names: Iterable[str]) -> None:
        """Raise unless every name is a column."""
        require_names(names, self.by_name)

    def take(self, rows: np.ndarray[Any, Any]) -> "Columns":
        """The rows whose numbers are given, in that order."""
        return Columns({name: column[rows] for name, column in self.by_name.items()}, len(rows))

    def only(self, names: Iterable[str]) -> "Columns":
        """The columns ``names``, in that order."""
        return Columns({name: self.column(name) for name in names}, self.n_rows)

    def without(self, *names: str) -> "Columns":
        """The same columns but for ``names``."""
        return Columns({k: v for k, v in self.by_name.items() if k not in names}, self.n_rows)


def column_name(index_or_name: int | str) -> str:
    """Name of a column that was given by its number in an array.

    >>> column_name(2), column_name("pctr")
    ('x2', 'pctr')
    """
    return index_or_name if isinstance(index_or_name, str) else f"x{index_or_name}"


def in_memory(data: Any) -> bool:
    """Whether ``data`` is an array, a mapping or a frame whose rows are at hand, so that no engine need be asked."""
    try:
        opened = nw.from_native(data, pass_through=True, eager_only=True)
    except NarwhalsError:  # A frame that repeats a name, say: reading it tells what is wrong.
        return True
    return isinstance(opened, nw.DataFrame | np.ndarray | Mapping)


def read_columns(frame: Any) -> Columns:
    """Open ``frame``; raise one clear error where it is no frame, is empty or repeats a name."""
    if isinstance(frame, np.ndarray):
        return _from_array(frame)
    if hasattr(frame, "tocsr"):
        raise DataError(f"sparse input ({type(frame).__name__}) is not supported: pass dense columns, X.toarray()")
    if isinstance(frame, Mapping):
        arrays = {str(k): np.asarray(v) for k, v in frame.items()}
        lengths = {len(v) for v in arrays.values()}
        if len(lengths) > 1:
            raise DataError(f"the columns have unequal lengths: {sorted(lengths)}")
        return _non_empty(Columns(arrays, max(lengths, default=0)))
    try:
        opened = nw.from_native(frame, pass_through=True, eager_only=True)
        if isinstance(opened, nw.DataFrame):
            # Polars would take a name such as ^a.*$ for a pattern.
            series = {str(name): opened.get_column(name).alias("column") for name in opened.columns}
            return _non_empty(Columns(series, len(opened)))
        array = np.asarray(frame)
    except (ValueError, NarwhalsError) as error:
        raise DataError(f"cannot read a {type(frame).__name__} as a table: {error}") from error
    if array.ndim == 0:
        kind = type(frame).__name__
        raise DataError(f"cannot read a {kind} as a table: pass a frame, an array or a dictionary of columns")
    return _from_array(array)


def _from_array(array: np.ndarray[Any, Any]) -> Columns:
    if array.ndim == 1:
        array = array.reshape(-1, 1)
    if array.ndim != 2:
        raise DataError(f"expected a table (two-dimensional), got shape {array.shape}")
    return _non_empty(Columns({column_name(i): array[:, i] for i in range(array.shape[1])}, len(array)))


def _non_empty(columns: Columns) -> Columns:
    if columns.n_rows == 0 or not columns.by_name:
        n_columns = len(columns.by_name)
        fault = f": {n_columns} feature(s) (shape=({columns.n_rows}, 0)) while a minimum of 1 is required; pass columns"
        raise DataError(f"the data is empty ({columns.n_rows} rows, {n_columns} columns){'' if n_columns else fault}")
    return columns


def require_names(wanted: Iterable[str], present: Collection[str]) -> None:
    """Raise unless every wanted name is present."""
    if missing := [name for name in wanted if name not in present]:
        plural = "columns are" if len(missing) > 1 else "column is"
        raise DataError(f"{plural} missing: {listing(missing)}; the data has {listing(present)}")


def listing(names: Iterable[str], most: int = 12) -> str:
    """Names for a message, the first ``most`` of them."""
    listed = [repr(name) for name in names]
    return ", ".join(listed[:most]) + (f" and {len(listed) - most} more" if len(listed) > most else "")


_NO_CATEGORY = (nw.Time, nw.Duration, nw.Binary, nw.List, nw.Array, nw.Struct)
_MOST_COUNTED = 1_000_000  # Widest range of integers that are counted one by one


def is_number(column: Any) -> bool:
    """Whether a column holds numbers (booleans, dates and text are none)."""
    if isinstance(column, nw.Series):
        return bool(column.dtype.is_numeric())
    if column.dtype.kind == "O":
        numbers = (int, float, np.number, decimal.Decimal)
        return all(isinstance(v, numbers) and not isinstance(v, bool) for v in column if v is not None)
    return bool(column.dtype.kind in "iuf")


def is_boolean(column: Any) -> bool:
    """Whether a column holds booleans."""
    return bool(column.dtype == nw.Boolean if isinstance(column, nw.Series) else column.dtype.kind == "b")


def refuse_no_category(column: str, dtype: DType) -> None:
    """Raise where values of this type cannot be told apart by a model."""
    if isinstance(dtype, _NO_CATEGORY):
        raise DataError(f"column {column!r} is {dtype}, which is no category: cast it to text or leave it out")


def as_floats(column: Any) -> npt.NDArray[np.float64]:
    """A column as float64, with NaN for what is missing or no number at all."""
    if isinstance(column, nw.Series):
        if column.dtype.is_numeric():
            return np.asarray(column.cast(nw.Float64).to_numpy(), dtype=np.float64)
        column = np.asarray(column.to_list(), dtype=object)
    if column.dtype.kind in "iufb":
        return np.asarray(column, dtype=np.float64)
    return np.array([as_float(value) for value in column.tolist()], dtype=np.float64)


def factorize(column: Any) -> tuple[list[Any], npt.NDArray[np.intp]]:
    """Distinct values, in no particular order, and the position among them of each row's value.

    >>> values, position = factorize(np.array(["b", "a", "b"]))
    >>> [values[i] for i in position]
    ['b', 'a', 'b']
    """
    if isinstance(column, nw.Series):
        if column.dtype.is_integer() and 0 < column.null_count() < len(column):
            return _factorize_with_nulls(column)
        if column.dtype.is_numeric() or column.dtype == nw.Boolean:
            column = column.to_numpy()
        elif column.implementation.is_pandas():
            pandas = column.implementation.to_native_namespace()
            try:
                codes, values = pandas.factorize(column.to_native(), use_na_sentinel=False)
            except TypeError:  # A value that cannot be looked up, such as a list.
                return _factorize_objects(column.to_list())
            return list(values), np.asarray(codes, dtype=np.intp)
        elif column.implementation.is_polars() and column.dtype == nw.String:
            return _factorize_texts(column)
        elif column.implementation.is_pyarrow() and column.dtype == nw.String:
            encoded = column.to_native().combine_chunks().dictionary_encode("encode")
            return encoded.dictionary.to_pylist(), np.asarray(encoded.indices, dtype=np.intp)
    if isinstance(column, np.ndarray) and column.dtype.kind in "iu" and len(column) and (narrow := _narrow(column)):
        return narrow
    if isinstance(column, np.ndarray) and column.dtype.kind in "iufbM":
        distinct, position = np.unique(column, return_inverse=True)
        return list(distinct), np.asarray(position, dtype=np.intp)
    return _factorize_objects(column.tolist() if isinstance(column, np.ndarray) else column.to_list())


def _factorize_with_nulls(column: nw.Series[Any]) -> tuple[list[Any], npt.NDArray[np.intp]]:
    """Integers some of which are missing: as floats, which numpy would make of them, large ones would change."""
    values, position = factorize(column.fill_null(column.min()))
    return [*values, None], np.where(column.is_null().to_numpy(), len(values), position)


def _factorize_texts(column: nw.Series[Any]) -> tuple[list[Any], npt.NDArray[np.intp]]:
    """Numbered by the frame's own library, which makes no Python object of a row."""
    values = column.unique().to_list()
    position = column.replace_strict(values, range(len(values)), return_dtype=nw.Int64)
    return values, np.asarray(position.to_numpy(), dtype=np.intp)


def _narrow(column: npt.NDArray[Any]) -> tuple[list[Any], npt.NDArray[np.intp]] | None:
    """Integers that lie close together are counted, which is many times faster than sorting; None for others."""
    least, most = int(column.min()), int(column.max())
    if most - least > min(len(column), _MOST_COUNTED):
        return None
    wide = column.astype(np.intp) if column.dtype.kind == "i" else column
    shifted = (wide - wide.dtype.type(least)).astype(np.intp)
    distinct = np.flatnonzero(np.bincount(shifted))
    position = np.empty(most - least + 1, dtype=np.intp)
    position[distinct] = np.arange(len(distinct))
    return list((distinct.astype(wide.dtype) + wide.dtype.type(least)).astype(column.dtype)), position[shifted]


def _factorize_objects(values: list[Any]) -> tuple[list[Any], npt.NDArray[np.intp]]:
    try:
        position = {value: i for i, value in enumerate(dict.fromkeys(values))}
    except TypeError:
        return _factorize_objects([value if isinstance(value, Hashable) else repr(value) for value in values])
    return list(position), np.fromiter((position[v] for v in values), dtype=np.intp, count=len(values))


_WORTH_THREADS = 100_000  # Rows from which on columns are coded side by side

Categorical = Literal["auto", "all"] | Sequence[str]


def fit_bins(
    columns: Columns,
    score_column: str,
    features: Sequence[str],
    y_prob: FloatArray,
    y_true: FloatArray,
    weight: FloatArray | None,
    categorical: Categorical,
    options: BinningOptions,
) -> FeatureBins:
    """Bins of the prediction and of ``features``; the prediction comes first."""
    columns.require(features)
    needed = (name for name in features if not is_number(columns.column(name)))
    by_value = chosen_categories(features, needed, categorical)
    weights = np.ones(len(y_prob)) if weight is None else weight
    sums = (weights, weights * y_true, weights * y_prob)
    fitted: list[Feature] = [fit_score_bins(score_column, *distinct_numbers(y_prob, weight), options)]
    for name in features:
        column = columns.column(name)
        if name in by_value:
            _refuse_nested(name, column)
            fitted.append(fit_categories(name, column, *sums, options))
        else:
            fitted.append(fit_number_bins(name, *distinct_numbers(as_floats(column), weight), options.numeric_bins))
    return FeatureBins(tuple(fitted))


def fit_categories(
    name: str, column: Any, weight: FloatArray, label: FloatArray, pred: FloatArray, options: BinningOptions
) -> CategoryBins:
    """Bins of a column that is coded by value; each entry has a weight, positives and predicted positives."""
    values, position = factorize(column)
    w, y, p = (np.bincount(position, each, len(values)).astype(np.float64) for each in (weight, label, pred))
    return fit_category_bins(name, values, w, y, p, options.min_category_rows, float(label.sum() / weight.sum()))


def _refuse_nested(name: str, column: Any) -> None:
    """Raise where a column holds lists, dictionaries or the like."""
    if isinstance(column, nw.Series):
        refuse_no_category(name, column.dtype)
    if isinstance(column, nw.Series) and not isinstance(column.dtype, nw.Object):
        return
    for value in column.to_list() if isinstance(column, nw.Series) else column.tolist():
        if not isinstance(value, Hashable):
            kind = type(value).__name__
            raise DataError(f"column {name!r} holds a {kind}, which is no category: take it apart or leave it out")


def chosen_categories(features: Sequence[str], needed: Iterable[str], categorical: Categorical) -> set[str]:
    """Features to be coded by value: all, those that cannot be cut (``needed``), or the named ones beside these."""
    if categorical == "all":
        return set(features)
    if categorical == "auto":
        return set(needed)
    if isinstance(categorical, str):
        raise ParameterError(f"categorical={categorical!r} must be 'auto', 'all' or a list of column names")
    named = {str(name) for name in categorical}
    if unknown := sorted(named - set(features)):
        raise DataError(f"categorical names {unknown}, but the features are {list(features)}")
    return set(needed) | named


def encode(columns: Columns, bins: FeatureBins, y_prob: FloatArray) -> CodeMatrix:
    """Codes of every row: one column a feature, the prediction first, in the narrowest integers."""
    columns.require(bins.names[1:])
    codes = np.empty((columns.n_rows, len(bins)), dtype=bins.code_type)

    def fill(j: int) -> None:
        codes[:, j] = encode_column(y_prob if j == 0 else columns.column(bins[j].name), bins[j])

    # What follows from a column's values alone may be found side by side.
    with ThreadPoolExecutor(1 if len(codes) < _WORTH_THREADS else os.cpu_count() or 1) as pool:
        list(pool.map(fill, range(len(bins))))
    return codes


def encode_column(column: Any, feature: Feature) -> np.ndarray[Any, Any]:
    """Codes of a column."""
    if isinstance(feature, NumberBins):
        return feature.encode(as_floats(column))
    values, position = factorize(column)
    return feature.encode(values)[position]
