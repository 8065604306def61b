"""Mails that an organization sends: by its own server, or by the installation's while it has none or its own fails."""

from datetime import datetime

from core.domain.branding import NO_LINKS, Branding
from core.domain.identifiers import OrganizationId, UserId
from core.domain.languages import Language
from core.domain.mail import Mail
from core.domain.tenancy.mail_servers import OrganizationMail
from ports.mail_templates import MailTemplates


def organization_mail(
    templates: MailTemplates,
    organization: OrganizationId,
    template: str,
    to: str,
    *,
    account: UserId | None,
    language: Language | None,
    branding: Branding,
    is_own: bool = False,
    **values: str | bool | datetime | tuple[str, ...] | None,
) -> OrganizationMail:
    """`is_own`: the mail goes to somebody with an own tie to the organization. For anybody else, the installation's server writes in our
    words and without links of the organization's choice, and the organization's own server in those of the organization.
    """

    def written(*, carries_own_texts: bool) -> Mail:
        return templates.mail(
            template, to, account=account, language=language, branding=branding, carries_own_texts=carries_own_texts, **values
        )

    mail = written(carries_own_texts=is_own)
    has_own = branding.texts.digest or branding.links != NO_LINKS
    own = written(carries_own_texts=True) if has_own and not is_own else mail
    return OrganizationMail(mail, organization, None if own == mail else own)
