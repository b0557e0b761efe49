"""Training: text to token streams, schedules, the loop, its checkpoints, and the recipes that use them."""
