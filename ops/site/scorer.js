// Sphinx's search asks here what a result is worth. Newcomers ask how, and decisions say why: every guide comes before every decision, whatever
// the words count. The pages of a band are in the order of their words.
const BAND = 1000
// Whoever names a framework wants its program; whoever names none does not.
const NAMES = /next\.?js|nextauth|react|vue|fastapi|django|flask|express|spring|rails|laravel|golang|asp\.net|android|ios|flutter|mobile/i
const NAMED = NAMES.test(new URLSearchParams(globalThis.location?.search).get("q") ?? "")
var Scorer = {
  score: ([docname, title, anchor, descr, score]) => {
    // The index has the words of all titles.
    if (docname === "index" || docname === "docs/decisions/README") return score - 2 * BAND
    if (docname.startsWith("docs/decisions/")) return score - BAND
    if (docname === "CHANGELOG" || docname === "docs/guides/README") return score / 2
    if (docname.startsWith("docs/guides/start/")) return NAMED ? score * 4 : score / 2
    return score
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
}
