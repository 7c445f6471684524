"""What the tests of runs, measures and the engine share."""
