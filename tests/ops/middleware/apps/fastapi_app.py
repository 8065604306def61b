import asyncio

from common import PORT, RAN, TOKENS
from fastapi import APIRouter, FastAPI
from fastapi_guard import Guard, claims, needs, open_to_anyone
from hypercorn.asyncio import serve
from hypercorn.config import Config
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

app = FastAPI()
app.add_middleware(Guard, tokens=TOKENS)
router = APIRouter(prefix="/orders")


def answer(sub):
    return JSONResponse({"sub": sub}, headers=RAN)


@app.get("/health")
@open_to_anyone
async def health():
    return answer(None)


@router.get("")
async def orders():
    return answer(claims()["sub"])


@router.get("/refunds")
@needs("orders:read", "orders:refund")
async def refunds():
    return answer(claims()["sub"])


@app.post("/payments")
@needs("payments:write", max_age=300)
def pay():
    return answer(claims()["sub"])


@app.get("/both")
@open_to_anyone
@needs("orders:read")
async def both():
    return answer(None)


@needs(two_factors=True)
async def secrets(_request):
    return answer(claims()["sub"])


async def twice():
    return answer(None)


app.add_api_route("/twice/open", open_to_anyone(twice))
app.add_api_route("/twice/closed", twice)
app.include_router(router)
# Starlette's own routes, below a mount.
app.router.routes.append(Mount("/", routes=[Route("/secrets", secrets)]))
config = Config()
config.bind = [f"127.0.0.1:{PORT}"]
asyncio.run(serve(app, config))
