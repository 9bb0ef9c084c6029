"""``python -m miaudit``."""

from miaudit.cli import main

main()
