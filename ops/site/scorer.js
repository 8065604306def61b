// Sphinx's search asks here what a result is worth. Decisions say why, and newcomers ask how: a decision comes after a guide.
var Scorer = {
  score: ([docname, title, anchor, descr, score]) => {
    if (docname.startsWith("docs/decisions/")) return score / 4
    // The index has the words of all titles.
    if (docname === "index") return score / 8
    if (docname === "CHANGELOG") return score / 2
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
