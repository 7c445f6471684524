"""The ground floor: processes, files that are written whole, progress, and the machine and the code that run."""
