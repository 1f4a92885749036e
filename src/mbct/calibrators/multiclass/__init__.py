"""Methods for more than two classes."""
