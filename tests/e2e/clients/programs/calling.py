"""Makes the calls that standard input names, with the client that the argument names, and prints what came of each."""

import asyncio
import json
import sys
from typing import Any

import trio
from postern_client import AsyncPostern, Postern, PosternError

GIVEN = json.load(sys.stdin)


def proof(method: str, address: str, token: str | None) -> str:
    return " ".join([method, "/" + address.split("/", 3)[3], *([] if token is None else [token])])


def options(one: dict[str, Any]) -> dict[str, Any]:
    given = {"longest_wait": 5, **one["options"]}
    if "prove" in given:
        given["prove"] = proof
    return {**given, "client": tuple(given["client"])} if "client" in given else given


def arguments(one: dict[str, Any]) -> dict[str, Any]:
    content = {"content": one["content"].encode()} if "content" in one else {}
    return {**one.get("body", {}), **one.get("query", {}), **content}


def refused(error: Exception) -> dict[str, Any]:
    told = {name: getattr(error, name, None) for name in ("status", "code", "retry_after", "request_id")}
    return {"error": type(error).__name__, "is_ours": isinstance(error, PosternError), **told}


def shown(answer: Any) -> Any:
    return answer if answer is None or isinstance(answer, str) else "object"


def blocking(one: dict[str, Any]) -> dict[str, Any]:
    try:
        with Postern(one["url"], **options(one)) as postern:
            answer = getattr(postern, one["call"])(*one["path"], **arguments(one))
            return {"items": [item.id for item in answer]} if "iterate" in one["call"] else {"answer": shown(answer)}
    except Exception as error:
        return refused(error)


async def asynchronous() -> list[dict[str, Any]]:
    return [await called(one) for one in GIVEN]


async def called(one: dict[str, Any]) -> dict[str, Any]:
    try:
        async with AsyncPostern(one["url"], **options(one)) as postern:
            answer = getattr(postern, one["call"])(*one["path"], **arguments(one))
            return {"items": [item.id async for item in answer]} if "iterate" in one["call"] else {"answer": shown(await answer)}
    except Exception as error:
        return refused(error)


if sys.argv[1] == "trio":
    print(json.dumps(trio.run(asynchronous)))
elif sys.argv[1] == "asyncio":
    print(json.dumps(asyncio.run(asynchronous())))
else:
    print(json.dumps([blocking(one) for one in GIVEN]))
