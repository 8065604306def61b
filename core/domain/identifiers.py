"""One type for each kind of id, so that the type checker notices a user's id where a session's is expected. All are UUIDv7."""

from datetime import datetime
from typing import NewType
from uuid import UUID

UserId = NewType("UserId", UUID)
SessionId = NewType("SessionId", UUID)
OrganizationId = NewType("OrganizationId", UUID)
EventId = NewType("EventId", UUID)
AuditEntryId = NewType("AuditEntryId", UUID)
JobId = NewType("JobId", UUID)
KeyId = NewType("KeyId", str)
DeviceId = NewType("DeviceId", UUID)
LoginEventId = NewType("LoginEventId", UUID)
MfaEventId = NewType("MfaEventId", UUID)
PreauthenticationId = NewType("PreauthenticationId", UUID)
PasskeyId = NewType("PasskeyId", UUID)
ImpersonationId = NewType("ImpersonationId", UUID)
TierId = NewType("TierId", UUID)
MembershipId = NewType("MembershipId", UUID)
RoleId = NewType("RoleId", UUID)
InvitationId = NewType("InvitationId", UUID)
ServiceId = NewType("ServiceId", UUID)
ClientId = NewType("ClientId", UUID)
WebhookId = NewType("WebhookId", UUID)
WebhookDeliveryId = NewType("WebhookDeliveryId", UUID)
LogoutNoticeId = NewType("LogoutNoticeId", UUID)
MailServerId = NewType("MailServerId", UUID)
LogoId = NewType("LogoId", UUID)
DomainId = NewType("DomainId", UUID)
OAuthCredentialId = NewType("OAuthCredentialId", UUID)
SiemId = NewType("SiemId", UUID)
ClientSecretId = NewType("ClientSecretId", UUID)
PlanId = NewType("PlanId", UUID)
SubscriptionId = NewType("SubscriptionId", UUID)
ApiKeyId = NewType("ApiKeyId", UUID)
ScimTokenId = NewType("ScimTokenId", UUID)
ScimExchangeId = NewType("ScimExchangeId", UUID)
AuthorizationCodeId = NewType("AuthorizationCodeId", UUID)
ConsentId = NewType("ConsentId", UUID)
PushedRequestId = NewType("PushedRequestId", UUID)
FlowId = NewType("FlowId", UUID)
DeviceCodeId = NewType("DeviceCodeId", UUID)
PrivacyRequestId = NewType("PrivacyRequestId", UUID)
SamlCertificateId = NewType("SamlCertificateId", UUID)
SamlSessionId = NewType("SamlSessionId", UUID)
SamlExchangeId = NewType("SamlExchangeId", UUID)


def first_id(at: datetime) -> UUID:
    """The smallest id that can be made at this time. Ids made at this time or later are not smaller."""
    return UUID(int=int(at.timestamp() * 1000) << 80)
