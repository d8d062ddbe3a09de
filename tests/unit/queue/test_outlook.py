"""Where the claims of one process look for items."""

from outlast.queue.items import Item, Lease
from outlast.queue.postgres.outlook import Outlook, QueueView


def lease(*ids: int, is_alone: bool = False) -> Lease:
    items = tuple(Item(str(number), "1") for number in ids)
    return Lease(token=1, items=items, expires=0.0, handle=(list(ids), is_alone))


def after_a_claim(found: Lease | None, *, at: float = 100.0) -> Outlook:
    outlook = Outlook()
    outlook.claimed(found, outlook.next(at), True, now=at)
    return outlook


def test_the_first_claim_looks_everywhere() -> None:
    view = Outlook().next(100.0)

    assert view.first_id == 0
    assert view.is_complete


def test_the_next_claim_starts_where_the_last_one_found_items() -> None:
    view = after_a_claim(lease(41, 42)).next(100.1)

    assert view.first_id == view.known_id == 41
    assert not view.is_complete


def test_items_that_came_back_do_not_move_the_start_back() -> None:
    outlook = after_a_claim(lease(41, 42))
    outlook.claimed(lease(3, 43), outlook.next(100.1), True, now=100.1)
    outlook.claimed(lease(90, is_alone=True), outlook.next(100.2), True, now=100.2)

    assert outlook.next(100.3).first_id == 41


def test_after_a_second_a_claim_looks_everywhere_again() -> None:
    outlook = after_a_claim(lease(41))

    assert not outlook.next(100.9).is_complete
    view = outlook.next(101.0)
    assert view.is_complete
    assert (view.first_id, view.known_id) == (0, 41)


def test_looking_everywhere_takes_a_hundredth_of_the_time() -> None:
    outlook = Outlook()
    outlook.claimed(lease(41), outlook.next(100.0), True, now=100.5)

    assert not outlook.next(150.4).is_complete
    assert outlook.next(150.5).is_complete


def test_a_fast_worker_looks_for_due_items_only_now_and_then() -> None:
    outlook = after_a_claim(lease(41))

    assert outlook.next(100.01).due_seconds is None
    assert seconds(outlook.next(100.5)) >= 0.5


def test_what_became_due_while_a_claim_failed_is_not_missed() -> None:
    outlook = after_a_claim(lease(41))
    outlook.next(100.4)

    assert seconds(outlook.next(100.8)) >= 0.8


def test_a_request_that_claims_nothing_does_not_count_as_a_look() -> None:
    outlook = after_a_claim(lease(41))
    outlook.claimed(None, outlook.next(100.4), None, now=100.4)

    assert seconds(outlook.next(100.8)) >= 0.8


def test_if_more_is_due_than_one_claim_brings_back_the_next_one_looks_everywhere() -> None:
    outlook = Outlook()
    outlook.claimed(lease(41), outlook.next(100.0), False, now=100.0)

    assert outlook.next(100.001).is_complete


def seconds(view: QueueView) -> float:
    assert view.due_seconds is not None
    return view.due_seconds
