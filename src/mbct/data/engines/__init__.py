"""One engine a file: how each groups, joins and reads."""
