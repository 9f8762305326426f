"""``python -m flcluster``, or this file by its path."""

import sys

if __name__ == "__main__":
    if __spec__ is None:
        del sys.path[0]  # this folder, put there because the file was named: it holds no modules of anyone
    from flcluster.cli import main

    raise SystemExit(main())
