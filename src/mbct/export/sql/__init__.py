"""The model as SQL over the raw columns, in nine dialects."""

from mbct.export.sql.dialects import DIALECTS
from mbct.export.sql.statement import FORMS, to_sql

__all__ = ["DIALECTS", "FORMS", "to_sql"]
