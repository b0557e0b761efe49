"""Speed, as ratios whose two sides are measured in one run. Never part of the tests: `python -m tests.benchmarks`."""
