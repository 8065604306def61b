// Puts a chooser in place of the link to the list of versions. `versions.js`, at the root of the site, names them, the newest first, each
// with its pages: a page of an old version knows the later ones by it.
{
  const place = document.querySelector(".versions")
  const versions = globalThis.POSTERN_VERSIONS ?? []
  const { version, root, page } = place?.dataset ?? {}
  const [newest] = versions
  const address = (one) => `${root}${one === newest ? "latest" : one.name}/${one.pages.includes(page) ? page : "index"}.html`

  if (versions.some((one) => one.name === version)) {
    const choice = document.createElement("select")
    choice.ariaLabel = "Version of the documents"
    for (const one of versions) {
      choice.add(new Option(one === newest ? `Version ${one.name}, the newest` : `Version ${one.name}`, address(one), false, one.name === version))
    }
    choice.addEventListener("change", () => location.assign(choice.value))
    place.replaceChildren(choice)
  }
  if (newest && newest.name !== version) {
    const notice = document.createElement("p")
    notice.className = "old-version"
    const link = document.createElement("a")
    link.href = address(newest)
    link.textContent = `Version ${newest.name} is the newest.`
    notice.append(`This page is about version ${version}. `, link)
    document.querySelector("#furo-main-content")?.prepend(notice)
  }
}
