"""Finding a program and running it: as a process of this machine, or in a container."""
