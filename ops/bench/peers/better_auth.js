// better-auth with e-mail and password and its plugin for API keys, on its own PostgreSQL support.
import { createHmac, randomBytes } from 'node:crypto';
import { apiKey } from '@better-auth/api-key';
import { hash, verify } from '@node-rs/argon2';
import { betterAuth } from 'better-auth';
import { getMigrations } from 'better-auth/db/migration';
import { toNodeHandler } from 'better-auth/node';
import { BASE, PASSWORD, emailOf, forEachPerson, leave, listen, pool } from './seeding.js';

// Postern's parameters, in the words of this library. It hashes on the threads of Node's pool.
const ARGON2ID = JSON.parse(process.env.ARGON2ID);

const options = {
  baseURL: BASE,
  secret: randomBytes(32).toString('base64'),
  database: pool,
  // Its default, scrypt, is five times as much work: a comparison would then be about the hashes, not about the servers.
  emailAndPassword: { enabled: true, password: { hash: (chosen) => hash(chosen, ARGON2ID), verify: (one) => verify(one.hash, one.password) } },
  // With this, one statement instead of two finds session and user. The documentation recommends it for these look-ups.
  experimental: { joins: true },
  // Rate limits are on by default in production. Postern's limits are off, too, because the case does not measure them.
  rateLimit: { enabled: false },
  plugins: [apiKey({ rateLimit: { enabled: false } })],
};
await (await getMigrations(options)).runMigrations();
const auth = betterAuth(options);

const context = await auth.$context;
const password = await context.password.hash(PASSWORD);
const cookie = context.authCookies.sessionToken.name;
const signed = (value) => encodeURIComponent(`${value}.${createHmac('sha256', options.secret).update(value).digest('base64')}`);

const made = await forEachPerson(async (number) => {
  const user = await context.internalAdapter.createUser({ email: emailOf(number), name: `Person ${number}`, emailVerified: true });
  await context.internalAdapter.linkAccount({ userId: user.id, providerId: 'credential', accountId: user.id, password });
  const session = await context.internalAdapter.createSession(user.id);
  const { key } = await auth.api.createApiKey({ body: { userId: user.id, name: 'Backend' } });
  return { email: user.email, session: `Cookie: ${cookie}=${signed(session.token)}`, key: `X-Api-Key: ${key}` };
});
leave('emails', made.map(({ email }) => email));
leave('sessions', made.map(({ session }) => session));
leave('keys', made.map(({ key }) => key));
await pool.query('vacuum analyze');

const handler = toNodeHandler(auth);
listen(async (request, response) => {
  // The plugin verifies keys for the program around it, not over HTTP. This is the smallest such program.
  if (request.url !== '/verify') return handler(request, response);
  const verified = await auth.api.verifyApiKey({ body: { key: request.headers['x-api-key'] ?? '' } });
  response.writeHead(verified.valid ? 200 : 401, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ valid: verified.valid, user: verified.key?.referenceId }));
});
