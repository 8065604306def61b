from wsgiref.simple_server import make_server

import django
from common import PORT, RAN, TOKENS
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import JsonResponse
from django.urls import path
from django.views import View

settings.configure(
    ROOT_URLCONF=__name__,
    MIDDLEWARE=["django_guard.guard", "django.middleware.common.CommonMiddleware"],
    ALLOWED_HOSTS=["*"],
    POSTERN_TOKENS=TOKENS,
)
django.setup()

from django_guard import needs, open_to_anyone  # noqa: E402 - it needs the settings


def answer(request):
    return JsonResponse({"sub": request.claims["sub"] if hasattr(request, "claims") else None}, headers=RAN)


class Health(View):
    def get(self, request):
        return answer(request)


def orders(request):
    return answer(request)


@needs("orders:read", "orders:refund")
def refunds(request):
    return answer(request)


@needs("payments:write", max_age=300)
def pay(request):
    return answer(request)


@needs(two_factors=True)
def secrets(request):
    return answer(request)


def twice(request):
    return answer(request)


@open_to_anyone
@needs("orders:read")
def both(request):
    return answer(request)


urlpatterns = [
    path("health", open_to_anyone(Health.as_view())),
    path("orders", orders),
    path("orders/refunds", refunds),
    path("payments", pay),
    path("secrets", secrets),
    path("both", both),
    path("twice/open", open_to_anyone(twice)),
    path("twice/closed", twice),
]
make_server("127.0.0.1", PORT, get_wsgi_application()).serve_forever()
