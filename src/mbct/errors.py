"""The errors and warnings a user can meet: each says what was found, where, and what to do."""


class MBCTError(Exception):
    """Root of every error that the package raises on purpose."""


class MBCTWarning(UserWarning):
    """The data or the result look wrong, but may be right: leaks, identifiers, swapped labels, too few rows."""


class DataError(MBCTError, ValueError):
    """The data cannot be used as given."""


class DataTypeError(DataError, TypeError):
    """A value is of a type that cannot be used."""


class ParameterError(MBCTError, ValueError):
    """A parameter makes no sense."""


class ModelFileError(MBCTError, ValueError):
    """A model or cell file is damaged, foreign or newer than this version."""


class StorageError(MBCTError, OSError):
    """A file could not be written or read."""


class MissingDependencyError(MBCTError, ImportError):
    """An optional package is needed for what was asked."""
