"""A model is checked as a whole before it may serve: what passes here cannot fail on a row."""

import numpy as np

from mbct.errors import MBCTError, ModelFileError
from mbct.model.bins import CategoryBins, NumberBins
from mbct.model.ensemble import CalibrationEnsemble
from mbct.model.file import ensemble_of
from mbct.model.tree import CalibrationTree


def checked_ensemble(content: bytes, name: str = "the model file") -> CalibrationEnsemble:
    """The ensemble inside a model file, refused with one clear error where anything in it makes no sense."""
    try:
        model = ensemble_of(content, name)
        check_model(model)
    except MBCTError as error:
        raise ModelFileError(str(error) if name in str(error) else f"{name}: {error}") from error
    except Exception as error:
        # The content comes from outside: whatever it breaks is damage in it, never a reason to stop serving.
        raise ModelFileError(f"{name} is damaged: {type(error).__name__} {error}; restore it or fit again") from error
    return model


def check_model(model: CalibrationEnsemble) -> None:
    """Raise where a name repeats, edges do not rise or a tree cannot be walked; reading has checked the rest."""
    names = model.bins.names
    if len(set(names)) < len(names):
        raise ModelFileError(f"a feature's name repeats: {list(names)}")
    for feature in model.bins:
        if isinstance(feature, NumberBins):
            edges = np.asarray(feature.edges, dtype=np.float64)
            if not np.isfinite(edges).all() or (np.diff(edges) <= 0).any():
                raise ModelFileError(f"the edges of {feature.name!r} do not rise")
        elif isinstance(feature, CategoryBins) and len(set(feature.values)) < len(feature.values):
            raise ModelFileError(f"a value of {feature.name!r} repeats")
    if not isinstance(model.bins[0], NumberBins):
        raise ModelFileError(f"the score {model.score!r} is no number")
    for number, tree in enumerate(model.trees):
        _check_tree(tree, model, number)


def _check_tree(tree: CalibrationTree, model: CalibrationEnsemble, number: int) -> None:
    if not tree.n_nodes:
        raise ModelFileError(f"tree {number} has no nodes")
    if model.link == "linear" and (tree.step < 0).any():
        raise ModelFileError(f"a multiplier of tree {number} is negative")
