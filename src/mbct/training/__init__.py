"""The algorithm in reading order: binning, cells, folds, gradients, splits, trees, boosting, evidence, distillation."""
