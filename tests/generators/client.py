"""Calls a server by what openapi-python-client makes of its document."""

import sys

from lockhouse_client import AuthenticatedClient
from lockhouse_client.api.claims import claim
from lockhouse_client.api.locks import lock, unlock
from lockhouse_client.api.owners import open_owner
from lockhouse_client.api.query import query
from lockhouse_client.models import (
    Code,
    Entry,
    EntryKind,
    EntryPage,
    EntryState,
    Intent,
    Locked,
    ModeWord,
    NameKey,
    NameToLock,
    NewClaim,
    NewLocks,
    NewOwner,
    OldLocks,
    OpenedOwner,
    Problem,
    RecordToLock,
    Released,
)

BUCKET = "python"


def main(url: str) -> None:
    # The server wants no credential, and takes any.
    client = AuthenticatedClient(base_url=url, token="none")
    # Members with a default may be left out.
    owner = open_owner.sync(BUCKET, client=client, body=NewOwner(label="Anna"))
    assert isinstance(owner, OpenedOwner), owner
    speaker = AuthenticatedClient(base_url=url, token=owner.owner_secret)
    targets: list[NameToLock | RecordToLock] = [
        RecordToLock(kind="customer", id="42", intent=Intent.WRITE),
        NameToLock(name="report", mode=ModeWord.SHARED),
    ]
    locked = lock.sync(BUCKET, client=speaker, body=NewLocks(owner=owner.owner, locks=targets))
    assert isinstance(locked, Locked), locked
    assert [granted.name for granted in locked.locks] == ["customer/42", "report"]

    page = query.sync(BUCKET, client=client, kind=EntryKind.OFFLINE, state=EntryState.HELD)
    assert isinstance(page, EntryPage), page
    entry: Entry = page.entries[0]
    assert (len(page.entries), entry.owner) == (2, owner.owner)

    old = OldLocks(owner=owner.owner, all_=True, sparing=[NameKey(name="report")])
    released = unlock.sync(BUCKET, client=speaker, body=old)
    assert isinstance(released, Released), released
    assert released.released == 1

    refused = claim.sync(BUCKET, client=client, body=NewClaim(resource="report", claimant="Bob"))
    assert isinstance(refused, Problem), refused
    assert refused.code == Code.BUSY


main(sys.argv[1])
