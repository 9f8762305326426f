"""``python -m flcluster``."""

from flcluster.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
