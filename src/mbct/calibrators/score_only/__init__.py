"""Methods that look at the score alone."""
