"""The command line: each command parses, calls one function of the package, and prints."""
