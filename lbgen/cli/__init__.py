"""The command line: one thin file a command, imported only when it is called."""
