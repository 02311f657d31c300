"""`python -m e2e.lab`."""

import sys

from e2e.lab.cli import main

sys.exit(main())
