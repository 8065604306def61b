"""What the paths of most endpoints name: an organization, or one of its services. The path of anything inside adds its own id."""

import msgspec

from entrypoints.http.machinery.fields import SlugOfOrganization, SlugOfService


class OrganizationPath(msgspec.Struct, frozen=True):
    org_slug: SlugOfOrganization


class ServicePath(OrganizationPath, frozen=True):
    service_slug: SlugOfService
