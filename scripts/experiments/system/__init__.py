"""The ground floor: processes, stamps, logs, progress, and the machine and the code that run."""
