"""`python -m vjp_task`."""

import sys

from vjp_task.cli import main

sys.exit(main())
