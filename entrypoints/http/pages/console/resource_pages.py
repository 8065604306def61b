"""All pages of a resource."""

from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.pages.console.action_pages import act_pages, ending_pages
from entrypoints.http.pages.console.creation_pages import making_pages
from entrypoints.http.pages.console.lists import list_page
from entrypoints.http.pages.console.many.bulks import bulk_page
from entrypoints.http.pages.console.many.exports import export_page
from entrypoints.http.pages.console.records import record_page, section_pages
from entrypoints.http.pages.console.resources import Resource
from entrypoints.http.pages.console.undo.undo_pages import undo_pages


def pages(resource: Resource) -> list[Endpoint]:
    made = [] if resource.is_single else [list_page(resource)]
    if resource.exported:
        made.append(export_page(resource))
    made += [bulk_page(resource, bulk) for bulk in resource.bulks]
    if resource.making is not None:
        made += making_pages(resource, resource.making)
    if resource.parameter or resource.is_single:
        made.append(record_page(resource))
        for section in resource.sections:
            made += section_pages(resource, section)
        for undoable in resource.undoables:
            made += undo_pages(undoable)
        for act in resource.acts:
            made += act_pages(resource, act)
        if resource.ending is not None:
            made += ending_pages(resource, resource.ending)
    return made
