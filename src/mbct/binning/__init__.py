"""Raw values to codes: numbers by mass or width, everything else by value, missing and unseen apart."""

from mbct.binning.features import CategoryBins, FeatureBins, NumberBins

__all__ = ["CategoryBins", "FeatureBins", "NumberBins"]
