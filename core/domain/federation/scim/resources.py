"""The JSON of SCIM users and groups, with the requested attributes and a version."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any, Final

from core.domain.errors import PreconditionFailed
from core.domain.federation.scim.groups import GROUP_SCHEMA, Group, ScimGrouping
from core.domain.federation.scim.mappings import MAPPABLE, NOTHING_MAPPED, MappableAttribute, ScimMapping, shown
from core.domain.federation.scim.protocol import ENTERPRISE_SCHEMA, USER_SCHEMA, InvalidValue
from core.domain.federation.scim.users import FIELD_SCHEMA, WORK, ProvisionedUser, ScimProfile
from core.domain.formats import timestamp
from core.domain.tenancy.profile_fields import FieldKind, FieldShape, ProfileField
from core.frozen import Frozen

BASE_PATH: Final = "/scim/v2"
_VERSION_LETTERS: Final = 32
_MOST_NAMES: Final = 100
# Attributes that no request can leave out (RFC 7643 section 7, `returned`).
_ALWAYS: Final = ("schemas", "id")

Resource = dict[str, Any]


class WantedAttributes(Frozen):
    """The attributes of an answer, in lower case: only these, or all without these."""

    only: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()

    def has(self, attribute: str) -> bool:
        """Whether the answer has any part of the attribute. If not, an expensive look-up can be saved."""
        name = attribute.lower()
        if self.only:
            return any(one == name or one.startswith(f"{name}.") for one in self.only)
        return name not in self.without


def wanted(attributes: str | Sequence[str] | None, excluded: str | Sequence[str] | None) -> WantedAttributes:
    """The attributes that a request asks for. Raises `InvalidValue` when the request uses both parameters."""
    if attributes and excluded:
        raise InvalidValue("attributes and excludedAttributes: not both")
    return WantedAttributes(_names(attributes), _names(excluded))


def projected(resource: Resource, want: WantedAttributes) -> Resource:
    if not want.only and not want.without:
        return resource
    kept: Resource = {}
    for name, value in resource.items():
        if name in _ALWAYS:
            kept[name] = value
        elif want.has(name):
            parts = _parts(name.lower(), want)
            kept[name] = _of_parts(value, parts, kept=bool(want.only)) if parts else value
    return kept


def _parts(name: str, want: WantedAttributes) -> frozenset[str]:
    """The parts of the attribute that the request names. Empty when the request names the whole attribute."""
    named = want.only or want.without
    return frozenset() if name in named else frozenset(one[len(name) + 1 :] for one in named if one.startswith(f"{name}."))


def _of_parts(value: Any, parts: frozenset[str], *, kept: bool) -> Any:
    if isinstance(value, Mapping):
        return {name: inner for name, inner in value.items() if (name.lower() in parts) is kept}
    return [_of_parts(one, parts, kept=kept) for one in value] if isinstance(value, list) else value


def _names(given: str | Sequence[str] | None) -> frozenset[str]:
    if not given:
        return frozenset()
    listed = given.split(",") if isinstance(given, str) else given
    if len(listed) > _MOST_NAMES:
        raise InvalidValue(f"attributes: at most {_MOST_NAMES}")
    return frozenset(_without_schema(one.strip().lower()) for one in listed if one.strip())


def _without_schema(name: str) -> str:
    for schema in (USER_SCHEMA, GROUP_SCHEMA):
        name = name.removeprefix(f"{schema.lower()}:")
    # An attribute is a part of its extension, as other attributes have parts.
    for extension in (FIELD_SCHEMA, ENTERPRISE_SCHEMA):
        name = name.replace(f"{extension.lower()}:", f"{extension.lower()}.")
    return name


def user_resource(user: ProvisionedUser, base_url: str, mapping: ScimMapping = NOTHING_MAPPED) -> Resource:
    """A mapped field stands in the resource as its attribute alone, so that a resource that comes back does not contradict itself."""
    profile = user.profile
    resource: Resource = {
        "schemas": [USER_SCHEMA],
        "id": str(user.id),
        "externalId": profile.external_id,
        "meta": _meta("User", user.created_at, user.updated_at, user_location(user, base_url), user_version(profile, mapping)),
        "userName": profile.user_name,
    }
    names = {"formatted": profile.formatted, "givenName": profile.given_name, "familyName": profile.family_name}
    if given := {name: value for name, value in names.items() if value is not None}:
        resource["name"] = given
    if profile.display_name is not None:
        resource["displayName"] = profile.display_name
    resource["emails"] = [{"value": profile.email, "type": WORK, "primary": True}]
    resource["active"] = profile.active
    core, enterprise = shown(mapping, profile.fields)
    mapped = {field.key for field in mapping.values()}
    fields = {key: value for key, value in profile.fields.items() if key not in mapped}
    extensions = {schema: values for schema, values in ((ENTERPRISE_SCHEMA, enterprise), (FIELD_SCHEMA, fields)) if values}
    return {**resource, **core, **extensions, "schemas": [USER_SCHEMA, *extensions]}


def group_resource(group: Group, base_url: str, members: Any) -> Resource:
    """`members` is in the form of the JSON. None leaves them out."""
    resource: Resource = {
        "schemas": [GROUP_SCHEMA],
        "id": str(group.id),
        "meta": _meta("Group", group.created_at, group.updated_at, group_location(group, base_url), group_version(group)),
        "displayName": group.name,
    }
    if group.external_id is not None:
        resource["externalId"] = group.external_id
    if members is not None:
        resource["members"] = members
    return resource


def users_address(base_url: str) -> str:
    return f"{base_url}{BASE_PATH}/Users"


def user_location(user: ProvisionedUser, base_url: str) -> str:
    return f"{users_address(base_url)}/{user.id}"


def group_location(group: Group, base_url: str) -> str:
    return f"{base_url}{BASE_PATH}/Groups/{group.id}"


def user_version(profile: ScimProfile, mapping: ScimMapping = NOTHING_MAPPED) -> str:
    told = (
        *(profile.user_name, profile.work_email, profile.external_id, profile.formatted, profile.given_name, profile.family_name),
        *(profile.display_name, profile.active),
        *sorted(profile.fields.items()),
        *sorted((name, field.key) for name, field in mapping.items()),
    )
    return _version(repr(told))


def group_version(group: Group) -> str:
    return _version(group.state)


def require_version(stated: str | None, current: str) -> None:
    """Checks `If-Match`. Raises `PreconditionFailed`."""
    if stated is not None and not _names_version(stated, current):
        raise PreconditionFailed


def is_known(stated: str | None, current: str) -> bool:
    """Whether the caller already has this version, by `If-None-Match`."""
    return stated is not None and _names_version(stated, current)


def _names_version(stated: str, current: str) -> bool:
    """Compares weakly (RFC 9110 section 8.8.3.2): a version stands for the content, and not for the order of its bytes."""
    return stated.strip() == "*" or current.removeprefix("W/") in {one.strip().removeprefix("W/") for one in stated.split(",")}


def _version(text: str) -> str:
    return f'W/"{sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_VERSION_LETTERS]}"'


def _meta(kind: str, created: datetime, modified: datetime, location: str, version: str) -> Resource:
    return {
        "resourceType": kind,
        "created": timestamp(created),
        "lastModified": timestamp(modified),
        "location": location,
        "version": version,
    }


def list_response(resources: Collection[Any], total: int, start: int) -> Resource:
    return {
        "schemas": ["urn:ietf:params:scim:api:messages:2.0:ListResponse"],
        "totalResults": total,
        "startIndex": start,
        "itemsPerPage": len(resources),
        "Resources": resources,
    }


# These documents tell clients what we support (RFC 7643 sections 5 to 7, RFC 7644 section 4). They promise nothing that we do not do:
# anything else is refused or not stored.
MOST_LISTED: Final = 1000
DEFAULT_COUNT: Final = 100
_META: Final = "urn:ietf:params:scim:schemas:core:2.0"


def service_provider_config(base_url: str) -> Mapping[str, Any]:
    return {
        "schemas": [f"{_META}:ServiceProviderConfig"],
        "patch": {"supported": True},
        "bulk": {"supported": False, "maxOperations": 0, "maxPayloadSize": 0},
        "filter": {"supported": True, "maxResults": MOST_LISTED},
        "changePassword": {"supported": False},
        "sort": {"supported": True},
        "etag": {"supported": True},
        "authenticationSchemes": [
            {
                "type": "oauthbearertoken",
                "name": "SCIM token",
                "description": "A token of the organization, sent as a Bearer token (RFC 6750).",
                "specUri": "https://www.rfc-editor.org/info/rfc6750",
                "primary": True,
            }
        ],
        "meta": {"resourceType": "ServiceProviderConfig", "location": f"{base_url}{BASE_PATH}/ServiceProviderConfig"},
    }


def resource_types(
    base_url: str, grouping: ScimGrouping, fields: Sequence[ProfileField], mapping: ScimMapping
) -> Sequence[Mapping[str, Any]]:
    """`fields` are those of the organization that its directory may write, besides the mapped ones."""
    person = _resource_type(base_url, "User", "Users", "A person whom the directory manages in the organization.", USER_SCHEMA)
    extensions = (*([FIELD_SCHEMA] if fields else []), *([ENTERPRISE_SCHEMA] if _mapped_attributes(mapping, of_enterprises=True) else []))
    return [
        {**person, "schemaExtensions": [{"schema": one, "required": False} for one in extensions]},
        _resource_type(base_url, "Group", "Groups", _GROUPS_ARE[grouping], GROUP_SCHEMA),
    ]


def schemas(base_url: str, grouping: ScimGrouping, fields: Sequence[ProfileField], mapping: ScimMapping) -> Sequence[Mapping[str, Any]]:
    """`fields` are those of the organization that its directory may write, besides the mapped ones."""
    extension = _schema(base_url, FIELD_SCHEMA, "Fields", "Fields of the organization", [_field_attribute(one) for one in fields])
    of_enterprises = _mapped_attributes(mapping, of_enterprises=True)
    enterprise = _schema(base_url, ENTERPRISE_SCHEMA, "EnterpriseUser", "A person of an enterprise", of_enterprises)
    return [
        *([extension] if fields else []),
        *([enterprise] if of_enterprises else []),
        _schema(base_url, USER_SCHEMA, "User", "A person", (*_USER_ATTRIBUTES, *_mapped_attributes(mapping, of_enterprises=False))),
        _schema(base_url, GROUP_SCHEMA, "Group", _GROUP_IS[grouping], (*_NAME_OF_GROUP[grouping], *_GROUP_ATTRIBUTES)),
    ]


def _resource_type(base_url: str, name: str, endpoint: str, description: str, schema: str) -> Mapping[str, Any]:
    return {
        "schemas": [f"{_META}:ResourceType"],
        "id": name,
        "name": name,
        "endpoint": f"/{endpoint}",
        "description": description,
        "schema": schema,
        "schemaExtensions": [],
        "meta": {"resourceType": "ResourceType", "location": f"{base_url}{BASE_PATH}/ResourceTypes/{name}"},
    }


def _schema(base_url: str, urn: str, name: str, description: str, attributes: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    return {
        "schemas": [f"{_META}:Schema"],
        "id": urn,
        "name": name,
        "description": description,
        "attributes": attributes,
        "meta": {"resourceType": "Schema", "location": f"{base_url}{BASE_PATH}/Schemas/{urn}"},
    }


def _attribute(name: str, description: str, kind: str = "string", **changes: Any) -> Mapping[str, Any]:
    described = {
        "name": name,
        "type": kind,
        "multiValued": False,
        "description": description,
        "required": False,
        "mutability": "readWrite",
        "returned": "default",
    }
    if kind == "string":
        described |= {"caseExact": False, "uniqueness": "none"}
    return {**described, **changes}


_FIELD_TYPES: Final = {FieldKind.NUMBER: "decimal", FieldKind.BOOLEAN: "boolean"}


def _field_attribute(field: ProfileField) -> Mapping[str, Any]:
    chosen: dict[str, Any] = {"canonicalValues": list(field.rule.choices)} if field.rule.choices else {}
    exact: dict[str, Any] = {} if field.kind in _FIELD_TYPES else {"caseExact": True}
    return _attribute(
        field.key, field.label, _FIELD_TYPES.get(field.kind, "string"), multiValued=field.kind is FieldKind.LIST, **exact, **chosen
    )


def _mapped_attributes(mapping: ScimMapping, *, of_enterprises: bool) -> Sequence[Mapping[str, Any]]:
    by_attribute: dict[str, list[tuple[MappableAttribute, FieldShape]]] = {}
    for name, one in MAPPABLE.items():
        if name in mapping and one.is_of_enterprises is of_enterprises:
            by_attribute.setdefault(one.attribute, []).append((one, mapping[name]))
    return [_mapped_attribute(name, filling) for name, filling in by_attribute.items()]


def _mapped_attribute(name: str, filling: Sequence[tuple[MappableAttribute, FieldShape]]) -> Mapping[str, Any]:
    one, field = filling[0]
    if one.part is None:
        return _filling(name, field)
    if one.type is None:
        parts = [_filling(one.part or name, field) for one, field in filling]
    else:
        keys = ", ".join(field.key for _, field in filling)
        types = [one.type for one, _ in filling]
        parts = [_attribute(one.part, f"Fills fields of the organization: {keys}.", caseExact=True)]
        parts.append(_attribute("type", "The kind of entry.", canonicalValues=types))
    return _attribute(name, "Fills fields of the organization.", "complex", multiValued=one.type is not None, subAttributes=parts)


def _filling(name: str, field: FieldShape) -> Mapping[str, Any]:
    chosen: dict[str, Any] = {"canonicalValues": list(field.rule.choices)} if field.rule.choices else {}
    return _attribute(name, f"Fills the field {field.key} of the organization.", caseExact=True, **chosen)


_USER_ATTRIBUTES: Final = (
    _attribute("userName", "The email address that the person signs in with.", required=True, uniqueness="server"),
    _attribute(
        "name",
        "The parts of the person's name.",
        "complex",
        subAttributes=[
            _attribute("formatted", "The whole name."),
            _attribute("givenName", "The given name."),
            _attribute("familyName", "The family name."),
        ],
    ),
    _attribute("displayName", "The name to show."),
    _attribute(
        "emails",
        "The work address: the userName, unless another one is stated. If you leave it out, it is the userName.",
        "complex",
        multiValued=True,
        required=True,
        subAttributes=[
            _attribute("value", "The address.", required=True),
            _attribute("type", "Always work.", canonicalValues=["work"]),
            # One address is kept, and it is the primary one whatever is sent: a value for what is read only is ignored (RFC 7644 sections
            # 3.3 and 3.5.1).
            _attribute("primary", "Always true.", "boolean", mutability="readOnly"),
        ],
    ),
    _attribute(
        "active",
        "Whether the person is a member of the organization. If you leave it out, a new person is a member.",
        "boolean",
        required=True,
    ),
)

_GROUPS_ARE: Final = {
    ScimGrouping.ORGANIZATION: "The organization itself, with its members.",
    ScimGrouping.TEAMS: "The organization itself, with its members, and the teams that the directory fills.",
}
_GROUP_IS: Final = {ScimGrouping.ORGANIZATION: "The organization", ScimGrouping.TEAMS: "The organization, or a team"}
_NAME_OF_GROUP: Final = {
    ScimGrouping.ORGANIZATION: (_attribute("displayName", "The name of the organization.", mutability="readOnly"),),
    ScimGrouping.TEAMS: (_attribute("displayName", "The name. The organization's own is read-only.", required=True),),
}
_GROUP_ATTRIBUTES: Final = (
    _attribute(
        "members",
        "The members of the group.",
        "complex",
        multiValued=True,
        subAttributes=[
            _attribute("value", "The id of the user.", mutability="immutable", caseExact=True),
            _attribute("$ref", "The address of the user.", "reference", mutability="immutable", caseExact=True, referenceTypes=["User"]),
            _attribute("type", "Always User.", mutability="immutable", canonicalValues=["User"]),
        ],
    ),
)
