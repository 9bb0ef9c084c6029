"""``python -m miaudit``."""

from miaudit.command.program import main

main()
