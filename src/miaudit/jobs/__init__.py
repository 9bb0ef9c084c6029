"""Long work as independent jobs: where they run, and the store by which they resume."""
