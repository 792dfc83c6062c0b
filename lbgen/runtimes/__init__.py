"""Running a program in a container or as a process."""
