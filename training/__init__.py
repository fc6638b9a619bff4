"""The training of the bundled models. `training/README.md` has the commands."""
