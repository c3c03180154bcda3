"""What ends a run: a sentence for the user, and the exit status."""

FAILED = 1
USAGE = 2
NO_SOURCE = 3


class Failure(Exception):
    """Said on standard error as it is; `status` becomes the exit status."""

    def __init__(self, sentence: str, status: int = FAILED):
        super().__init__(sentence)
        self.status = status
