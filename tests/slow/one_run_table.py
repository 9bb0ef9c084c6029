"""Print the table of experiments/validity/one_run.md: ``PYTHONPATH=tests python tests/slow/one_run_table.py``."""

from worlds.one_run import rows, table

if __name__ == "__main__":
    print(table(rows()))
