from common import PORT, RAN, TOKENS
from flask import Flask, g
from flask_guard import guard, needs, open_to_anyone
from werkzeug.serving import make_server

app = Flask(__name__)
guard(app, TOKENS)


def answer() -> tuple[dict[str, str | None], int, dict[str, str]]:
    return {"sub": g.claims["sub"] if "claims" in g else None}, 200, RAN


@app.get("/health")
@open_to_anyone
def health():
    return answer()


@app.get("/orders")
def orders():
    return answer()


@app.get("/orders/refunds")
@needs("orders:read", "orders:refund")
def refunds():
    return answer()


@app.post("/payments")
@needs("payments:write", max_age=300)
def pay():
    return answer()


@app.get("/secrets")
@needs(two_factors=True)
def secrets():
    return answer()


@app.get("/both")
@open_to_anyone
@needs("orders:read")
def both():
    return answer()


def twice():
    return answer()


app.add_url_rule("/twice/open", "open", open_to_anyone(twice))
app.add_url_rule("/twice/closed", "closed", twice)
make_server("127.0.0.1", PORT, app, threaded=True).serve_forever()
