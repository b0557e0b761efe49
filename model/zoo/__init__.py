"""What can be loaded, and how a checkpoint becomes a model."""
