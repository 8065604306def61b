// What a program does with the client: a person founds an organization, and a management key of it works there.
import { ApiError, Conflict, NotFound, Postern, Unauthorized, type TeamRecord } from "@postern/client"

declare const process: { argv: string[] }
const [baseUrl = "", email = "", password = ""] = process.argv.slice(2)

function same(found: unknown, expected: unknown): void {
  if (JSON.stringify(found) !== JSON.stringify(expected)) throw new Error(`${JSON.stringify(found)}, not ${JSON.stringify(expected)}`)
}

async function refused(call: Promise<unknown>, kind: typeof ApiError, status: number): Promise<ApiError> {
  try {
    await call
  } catch (error) {
    if (error instanceof ApiError && error instanceof kind && error.status === status) return error
    throw error
  }
  throw new Error("was not refused")
}

const { access_token: person } = await new Postern(baseUrl).signIn({ email, password })
const postern = new Postern(baseUrl, { token: async () => person })
same((await postern.getProfile()).email, email)
const made = await postern.createOrganization({ slug: "typescript", name: "TypeScript" })
if (made.organization.status === "pending") await postern.approveOrganization(made.organization.id)
const { key } = await new Postern(baseUrl, { token: made.access_token }).createManagementKey("typescript", {
  name: "Walk",
  capabilities: ["org.members.view", "org.members.manage", "audit_logs.view"],
  expires_in_days: 1,
})

const program = new Postern(baseUrl, { token: key })
const slugs = ["team0", "team1", "team2", "team3", "team4"]
const teams: TeamRecord[] = []
for (const slug of slugs) teams.push(await program.createTeam("typescript", { slug, name: slug.toUpperCase() }))
same(new Set(teams.map((team) => team.org_id)).size, 1)
same((await program.listTeams("typescript")).map((team) => team.slug), slugs)
const changed = await program.changeTeam("typescript", "team0", { name: "The first" })
same([changed.name, changed.role], ["The first", null])
same(await program.deleteTeam("typescript", "team4"), undefined)

const conflict = await refused(program.createTeam("typescript", { slug: "team0", name: "Again" }), Conflict, 409)
same([conflict.code, typeof conflict.requestId], ["CONFLICT", "string"])
await refused(program.deleteTeam("typescript", "team4"), NotFound, 404)
await refused(new Postern(baseUrl, { token: "pto_unknown" }).listTeams("typescript"), Unauthorized, 401)

const ids: string[] = []
for await (const entry of program.iterateAuditLog("typescript", { target_type: "team", limit: 2 })) ids.push(entry.id)
same(ids.length, 7)
const first = await program.listAuditLog("typescript", { target_type: "team", limit: 2 })
same([first.logs.map((entry) => entry.id), first.pagination.has_next], [ids.slice(0, 2), true])
for await (const one of program.iterateSignIns("typescript", { limit: 1 })) same(one.success, true)
for await (const member of program.iterateMembers("typescript")) same(member.user.email, email)

const stopped = AbortSignal.abort(new Error("stopped"))
same(await program.listTeams("typescript", { signal: stopped }).catch((error: Error) => error.message), "stopped")
console.log("walked")
