"""The presets: the paper as printed; the default, validated on held-out data; and a fast setting of the default."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from mbct.errors import ParameterError
from mbct.model.ensemble import Link
from mbct.training.binning import BinningOptions
from mbct.training.options import BoostingOptions
from mbct.training.paper.trainer import PaperOptions

PresetName = Literal["default", "fast", "paper"]


@dataclass(frozen=True)
class Preset:
    """How to bin, how to grow and how steps move predictions."""

    binning: BinningOptions
    growth: PaperOptions | BoostingOptions
    link: Link


PRESETS: dict[str, Preset] = {
    "default": Preset(BinningOptions(), BoostingOptions(), "odds"),
    "fast": Preset(
        BinningOptions(),
        BoostingOptions(rate=0.5, leaves=(63,), short_ensemble=0, small_data=0, patience=6, distilled=False),
        "odds",
    ),
    "paper": Preset(
        BinningOptions(numeric_bins=32, score_bins=100, score_binning="width", min_category_rows=1.0),
        PaperOptions(),
        "linear",
    ),
}


def preset(name: str, overrides: Mapping[str, Any]) -> Preset:
    """The preset called ``name`` with some of its options replaced; None keeps the preset's value."""
    if name not in PRESETS:
        raise ParameterError(f"preset={name!r} is unknown; choose {' or '.join(map(repr, PRESETS))}")
    chosen = PRESETS[name]
    given = {key: value for key, value in overrides.items() if value is not None}
    known = {f.name for part in (chosen.binning, chosen.growth) for f in fields(part)}
    if foreign := sorted(set(given) - known):
        raise ParameterError(f"{foreign[0]}={given[foreign[0]]!r} has no meaning with preset={name!r}; leave it out")
    return Preset(_replaced(chosen.binning, given), _replaced(chosen.growth, given), chosen.link)


def _replaced(part: Any, given: Mapping[str, Any]) -> Any:
    for f in fields(part):
        if isinstance(given.get(f.name), str) and str not in (get_args(f.type) or (f.type,)):
            name = "learning_rate" if f.name == "rate" else f.name
            raise ParameterError(f"{name}={given[f.name]!r} is text: pass a number")
    own = {f.name: given.get(f.name, getattr(part, f.name)) for f in fields(part)}
    return type(part)(**own)
