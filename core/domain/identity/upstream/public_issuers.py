"""Issuers of families where anybody can have an account. An organization may have a client there, and its provider still says nothing about
the addresses of the organization's domain: a stranger's account there may state any of them.
"""

from typing import Final
from urllib.parse import urlsplit

# By host. Microsoft is not among them: each of its issuers is one tenant. Nor is Google: see `HOSTS_OF_DOMAINS`.
PUBLIC_HOSTS: Final = frozenset(
    {
        *("appleid.apple.com", "account.apple.com", "gitlab.com", "slack.com", "discord.com", "discordapp.com", "github.com"),
        *("facebook.com", "linkedin.com", "access.line.me", "line.me", "yandex.ru", "yandex.com", "twitch.tv", "spotify.com"),
        *("vk.com", "vk.ru", "kakao.com", "naver.com", "paypal.com", "paypalobjects.com", "yahoo.com", "yahoo.co.jp", "amazon.com"),
        *("x.com", "twitter.com", "tiktok.com", "bitbucket.org", "atlassian.com", "dropbox.com", "mail.ru", "ok.ru", "steampowered.com"),
        *("steamcommunity.com", "patreon.com", "reddit.com", "zoom.us", "notion.com", "notion.so", "instagram.com", "weixin.qq.com"),
    }
)


# Anybody can have an account there, too, with an address of any domain that was theirs on some day. `hd` says that an organization manages
# the account.
HOSTS_OF_DOMAINS: Final = frozenset({"accounts.google.com"})


def is_public(issuer: str) -> bool:
    """Whether the issuer is one of these hosts, or below one."""
    labels = _host(issuer).split(".")
    return any(".".join(labels[at:]) in PUBLIC_HOSTS for at in range(len(labels)))


def names_domain(issuer: str) -> bool:
    """Whether the issuer says by `hd` which accounts an organization manages."""
    return _host(issuer) in HOSTS_OF_DOMAINS


def _host(issuer: str) -> str:
    try:
        return (urlsplit(issuer if "//" in issuer else f"//{issuer}").hostname or "").rstrip(".")
    except ValueError:
        return ""
