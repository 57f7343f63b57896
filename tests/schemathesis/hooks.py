"""What a schema cannot say: who speaks, and what was there before.

Without it nearly every call would end at an owner or a claim that does not exist, and what is answered then would be all that is
checked.
"""

import re
import threading
import uuid

import requests
import schemathesis
from schemathesis.generation import GenerationMode

KEY = "Idempotency-Key"
session = threading.local()


def post(case, path, body):
    if not hasattr(session, "http"):
        session.http = requests.Session()
    bucket = requests.utils.quote(str(case.path_parameters["bucket"]), safe="")
    return session.http.post(f"{case.operation.base_url}/v1/buckets/{bucket}/{path}", json=body, timeout=10)


def is_positive(case):
    return case.meta is not None and case.meta.generation.mode == GenerationMode.POSITIVE


@schemathesis.auth(refresh_interval=None)
class OwnerSecret:
    """Begins an owner for each call that needs one, and lets it speak."""

    def get(self, case, context):
        if "bucket" not in case.path_parameters:
            return None
        opened = post(case, "owners", {"label": "schemathesis", "ttlMs": 60_000})
        return opened.json() if opened.status_code == 201 else None

    def set(self, case, owner, context):
        if owner is None:
            return
        case.headers["Authorization"] = f"Bearer {owner['ownerSecret']}"
        if not is_positive(case):
            return
        if "owner" in case.path_parameters:
            case.path_parameters["owner"] = owner["owner"]
        elif isinstance(case.body, dict) and "owner" in case.body:
            case.body["owner"] = owner["owner"]


@schemathesis.hook
def before_call(context, case, kwargs):
    # A key stands for one request; the same one for another is refused, as it should be.
    if re.fullmatch("[!-~]{1,255}", str(case.headers.get(KEY, ""))):
        case.headers[KEY] = uuid.uuid4().hex
    cursor = str((case.query or {}).get("cursor", ""))
    if not is_positive(case):
        # The server reads no longer address: it would say so, and nothing of the cursor.
        if len(cursor) > 4000:
            case.query["cursor"] = cursor[:1000] + "!"
        return
    path = case.operation.path
    # Instants are more than a pattern, and an interval has two.
    for key, instant in [("from", "2026-11-20T12:00:00.000Z"), ("to", "2026-11-21T12:00:00.000Z")]:
        if path.endswith("/history") and key in case.query:
            case.query[key] = instant
    # A cursor is one of an order.
    if path.endswith("/query") and cursor:
        case.query["sort"] = "age" if cursor.startswith("1") else "name"
    if path.endswith("/locks") and cursor:
        case.query["cursor"] = "0" + cursor[1:]
    if path.endswith(("/claims/renew", "/claims/release", "/claims/finalize")) and isinstance(case.body, dict):
        token = claim(case, case.body.get("resource"))
        if token is not None and "token" in case.body:
            case.body["token"] = token
    elif path.endswith("/assignments") and "resource" in case.query:
        resource = case.query["resource"]
        token = claim(case, resource)
        if token is not None:
            post(case, "claims/finalize", {"resource": resource, "token": token})


def claim(case, resource):
    claimed = post(case, "claims", {"resource": resource, "claimant": "schemathesis", "ttlMs": 60_000})
    return claimed.json()["token"] if claimed.status_code == 201 else None
