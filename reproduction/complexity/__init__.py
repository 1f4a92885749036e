"""Appendix A.2: how the cost of training grows."""
