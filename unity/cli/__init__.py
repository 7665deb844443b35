"""The command line: ``python -m unity`` with one small function per subcommand."""
