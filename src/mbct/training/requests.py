"""Algorithms that ask for sums over rows, wherever these are: generators that yield a request and are sent its answer.

The same algorithm runs on rows in memory, where each request is answered at once, and on rows in shards, where the
requests of all folds are answered in one pass.
"""

from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

Request = TypeVar("Request")
Answer = TypeVar("Answer")
Found = TypeVar("Found")


def answered(asking: Generator[Request, Answer, Found], answer: Callable[[Request], Answer]) -> Found:
    """What one algorithm finds, given the answer to each of its requests.

    >>> def doubled():
    ...     return 2 * (yield "how many?")
    >>> answered(doubled(), len)
    18
    """
    return answered_together([asking], lambda requests: {k: answer(each) for k, each in requests.items()})[0]


def answered_together(
    asking: Sequence[Generator[Request, Answer, Found]], answer: Callable[[dict[int, Request]], dict[int, Answer]]
) -> list[Found]:
    """What several algorithms find side by side; ``answer`` is given the requests of all that still ask, by number."""
    found: dict[int, Found] = {}
    requests = {k: next(each) for k, each in enumerate(asking)}
    while requests:
        answers, requests = answer(requests), {}
        for k, sums in answers.items():
            try:
                requests[k] = asking[k].send(sums)
            except StopIteration as finished:
                found[k] = finished.value
    return [found[k] for k in range(len(asking))]
