"""The paper's algorithm as printed: multiway trees grown level by level, MVCE as the loss."""
