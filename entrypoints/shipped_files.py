"""Where a file of the repository is that an installed package has beside it: the operator's files, and the guides."""

import sysconfig
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parent.parent
# Beside the package of a wheel in a folder of its own (`pip install --target`), and in an environment.
INSTALLED: Final = tuple(prefix / "share" / "postern" for prefix in (REPOSITORY.parent, Path(sysconfig.get_path("data"))))
