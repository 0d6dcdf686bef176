"""How commands end."""

import sys
from collections.abc import Callable


def ended(work: Callable[[], int]) -> int:
    """The status that a command ends with; what went wrong is said in a line."""
    try:
        return work()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except (ImportError, OSError, RuntimeError, TypeError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
