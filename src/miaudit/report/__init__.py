"""From finished findings to a page and figures."""
