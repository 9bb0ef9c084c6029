"""Statistical validity by sequential tests: claims about error rates, their controls, and the shards that CI runs."""
