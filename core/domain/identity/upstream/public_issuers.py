"""Issuers of families where anybody can have an account. An organization may have a client there, and its provider still says nothing about
the addresses of the organization's domain: a stranger's account there may state any of them.
"""

from typing import Final
from urllib.parse import urlsplit

# By host. Google and Microsoft are not among them: their claims say whether the organization's own tenant has made an account.
PUBLIC_HOSTS: Final = frozenset(
    {
        *("appleid.apple.com", "account.apple.com", "gitlab.com", "slack.com", "discord.com", "discordapp.com", "github.com"),
        *("facebook.com", "linkedin.com", "access.line.me", "line.me", "yandex.ru", "yandex.com", "twitch.tv", "spotify.com"),
        *("vk.com", "vk.ru", "kakao.com", "naver.com", "paypal.com", "paypalobjects.com", "yahoo.com", "yahoo.co.jp", "amazon.com"),
        *("x.com", "twitter.com", "tiktok.com", "bitbucket.org", "atlassian.com", "dropbox.com", "mail.ru", "ok.ru", "steampowered.com"),
        *("steamcommunity.com", "patreon.com", "reddit.com", "zoom.us", "notion.com", "notion.so", "instagram.com", "weixin.qq.com"),
    }
)


def is_public(issuer: str) -> bool:
    """Whether the issuer is one of these hosts, or below one."""
    try:
        host = urlsplit(issuer).hostname or ""
    except ValueError:
        return False
    labels = host.rstrip(".").split(".")
    return any(".".join(labels[at:]) in PUBLIC_HOSTS for at in range(len(labels)))
