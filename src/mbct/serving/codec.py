"""Bodies in JSON, MessagePack and Arrow: from bytes to columns, from probabilities to bytes."""

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qs

import msgspec
import numpy as np

from mbct.errors import DataError
from mbct.serving.batch import arrow_columns, check_schema
from mbct.serving.http import JSON, Problem
from mbct.serving.loaded_model import Identifier, LoadedModel
from mbct.serving.options import Limits
from mbct.validation import FloatArray

MSGPACK = b"application/msgpack"
ARROW = b"application/vnd.apache.arrow.stream"
_MSGPACK_NAMES = (MSGPACK, b"application/x-msgpack", b"application/vnd.msgpack")


class ScoreBody(NamedTuple):
    """A decoded request: one row's values, or columns in the model's order."""

    row: tuple[Any, ...] | None
    columns: Sequence[Any]
    ids: Sequence[str] | None
    format: bytes


class ScoreAnswer(msgspec.Struct):
    """The answer in JSON and MessagePack."""

    calibrated: list[float] | list[list[float]]
    model: str
    interval: list[tuple[float, float]] | msgspec.UnsetType = msgspec.UNSET
    classes: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET


_JSON_ENCODER, _MSGPACK_ENCODER = msgspec.json.Encoder(), msgspec.msgpack.Encoder()


def decode_score(
    loaded: LoadedModel, content_type: bytes, body: bytes, limits: Limits, query: bytes = b""
) -> ScoreBody:
    """Decode and check a request; a :class:`~mbct.serving.http.Problem` says what is wrong with it, and where.

    An Arrow stream has its ids in the column that the query names (``?ids=COLUMN``).
    """
    if content_type == JSON:
        return _from_request(decode(loaded.decoders.json, body), limits, JSON)
    if content_type in _MSGPACK_NAMES:
        return _from_request(decode(loaded.decoders.msgpack, body), limits, MSGPACK)
    if content_type == ARROW:
        return _from_arrow(loaded, body, limits, query)
    formats = b", ".join((JSON, MSGPACK, ARROW)).decode()
    raise Problem(415, "Unsupported Media Type", f"send one of {formats} and name it in the content-type header")


def encode_score(
    calibrated: FloatArray | list[float],
    model: str,
    content_type: bytes,
    interval: tuple[FloatArray, FloatArray] | None = None,
    classes: tuple[str, ...] | None = None,
) -> bytes:
    """The answer in the format of the request.

    With both ends of each row's interval where they are given, and a probability for each of ``classes``.
    """
    if content_type == ARROW:
        import pyarrow as pa

        ends = {} if interval is None else {"lower": interval[0], "upper": interval[1]}
        columns: dict[str, Any] = {"calibrated": calibrated, **ends}
        if classes is not None:
            columns = dict(zip((f"calibrated_{name}" for name in classes), np.transpose(calibrated), strict=True))
        table = pa.table(columns, metadata={"model": model})
        with pa.ipc.new_stream(out := pa.BufferOutputStream(), table.schema) as writer:
            writer.write_table(table)
        return bytes(out.getvalue())
    answer = ScoreAnswer(calibrated if isinstance(calibrated, list) else calibrated.tolist(), model)
    if interval is not None:
        answer.interval = list(zip(*(ends.tolist() for ends in interval), strict=True))
    if classes is not None:
        answer.classes = classes
    return (_JSON_ENCODER if content_type == JSON else _MSGPACK_ENCODER).encode(answer)


def decode(decoder: Any, body: bytes) -> Any:
    """Decode with 400 for what cannot be read and 422 for what does not fit."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise unprocessable(str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(400, "Bad Request", f"the body cannot be read: {error}") from error


def decode_json(decoder: Any, content_type: bytes, body: bytes) -> Any:
    """Decode what must be JSON."""
    if content_type != JSON:
        raise Problem(415, "Unsupported Media Type", "send application/json and name it in the content-type header")
    return decode(decoder, body)


def unprocessable(detail: str) -> Problem:
    """A body that can be read but makes no sense."""
    return Problem(422, "Unprocessable Content", detail)


def _from_request(request: Any, limits: Limits, content_type: bytes) -> ScoreBody:
    rows, columns, ids = request.rows, request.columns, request.ids
    if (rows is msgspec.UNSET) == (columns is msgspec.UNSET):
        raise unprocessable('send either `rows`, such as {"rows": [{"column": value}]}, or `columns`')
    if rows is msgspec.UNSET:
        given = [getattr(columns, field) for field in columns.__struct_fields__]
        _check_size(len(given[0]), ids, limits)
        return ScoreBody(None, given, ids, content_type)
    _check_size(len(rows), ids, limits)
    if len(rows) == 1:
        return ScoreBody(msgspec.structs.astuple(rows[0]), (), ids, content_type)
    return ScoreBody(None, list(zip(*map(msgspec.structs.astuple, rows), strict=True)), ids, content_type)


def _check_size(n_rows: int, ids: Sequence[str] | None, limits: Limits) -> None:
    if not 0 < n_rows <= limits.rows:
        raise unprocessable(f"a request takes 1 to {limits.rows:,} rows, this one has {n_rows:,}")
    if ids is not None and len(ids) != n_rows:
        raise unprocessable(f"there are {len(ids):,} ids for {n_rows:,} rows")


def _from_arrow(loaded: LoadedModel, body: bytes, limits: Limits, query: bytes) -> ScoreBody:
    try:
        import pyarrow as pa
    except ImportError as error:
        raise Problem(415, "Unsupported Media Type", "this service has no pyarrow: send JSON or MessagePack") from error
    try:
        _check_messages(pa, body, limits)
        ids_column = parse_qs(query.decode("ascii", "replace")).get("ids", [None])[0]
        with pa.ipc.open_stream(body) as reader:
            schema = reader.schema
        # What the model does not need is not decoded, and what it needs has a type that cannot unfold.
        wanted = check_schema(loaded.bins, schema, ids_column)
        options = pa.ipc.IpcReadOptions(included_fields=wanted, use_threads=False)
        with pa.ipc.open_stream(body, options=options) as reader:
            table = reader.read_all()
        table.validate(full=True)
        ids = None if ids_column is None else msgspec.convert(table.column(ids_column).to_pylist(), list[Identifier])
        _check_size(table.num_rows, ids, limits)
        return ScoreBody(None, arrow_columns(loaded.bins, table, limits.text_length), ids, ARROW)
    except (DataError, msgspec.ValidationError) as error:
        raise unprocessable(str(error)) from error
    except (pa.ArrowException, ValueError, TypeError, OverflowError, struct.error, IndexError, OSError) as error:
        first_line = str(error).partition("\n")[0]
        raise Problem(400, "Bad Request", f"the Arrow stream cannot be read: {first_line}") from error


def wants_interval(query: bytes) -> bool:
    """Whether the answer is to have the interval of each row: ``?interval=1``."""
    return b"interval" in query and parse_qs(query.decode("ascii", "replace")).get("interval") in (["1"], ["true"])


def _check_messages(pa: Any, body: bytes, limits: Limits) -> None:
    """Refuse compressed batches, which could unfold to any size, and too many rows or values, before they are read."""
    stream = pa.BufferReader(body)
    n_rows = 0
    while True:
        try:
            message = pa.ipc.read_message(stream)
        except EOFError:
            break
        if message.type not in ("record batch", "dictionary"):
            continue
        is_dictionary = message.type == "dictionary"
        length, compressed = _length_and_compression(bytes(message.metadata), is_dictionary=is_dictionary)
        if compressed:
            raise DataError("compressed Arrow streams are not taken: send it without compression")
        if is_dictionary and not 0 <= length <= limits.rows:
            raise DataError(f"a dictionary has {length:,} values, at most {limits.rows:,} are taken: send plain values")
        n_rows += 0 if is_dictionary else length
        if not 0 <= length <= limits.rows or n_rows > limits.rows:
            raise DataError(f"a request takes 1 to {limits.rows:,} rows, this one has {max(length, n_rows):,} or more")


def _length_and_compression(metadata: bytes, *, is_dictionary: bool) -> tuple[int, bool]:
    """Number of rows or values of a batch, and whether it is compressed, read from its message's flatbuffer."""
    batch = _Flatbuffer(metadata, struct.unpack_from("<I", metadata, 0)[0]).table(2)
    if is_dictionary:
        batch = batch.table(1)
    length = batch.field(0)
    return 0 if length is None else struct.unpack_from("<q", metadata, length)[0], batch.field(3) is not None


class _Flatbuffer(NamedTuple):
    """A table of a flatbuffer."""

    content: bytes
    position: int

    def field(self, number: int) -> int | None:
        """Where a field lies, None where it is absent."""
        vtable = self.position - struct.unpack_from("<i", self.content, self.position)[0]
        slot = 4 + 2 * number
        if slot >= struct.unpack_from("<H", self.content, vtable)[0]:
            return None
        offset = struct.unpack_from("<H", self.content, vtable + slot)[0]
        return self.position + offset if offset else None

    def table(self, number: int) -> "_Flatbuffer":
        """The table that a field points to."""
        if (position := self.field(number)) is None:
            raise ValueError(f"field {number} of a message is missing")
        return _Flatbuffer(self.content, position + struct.unpack_from("<I", self.content, position)[0])
