// oidc-provider, its models in PostgreSQL: one table, a primary key, prepared statements.
import { createHash, generateKeyPairSync, randomBytes } from 'node:crypto';
import { BASE, emailOf, forEachPerson, leave, listen, pool } from './seeding.js';
import { Provider } from 'oidc-provider';

await pool.query(`
  create table accounts (id text primary key, email text not null, email_verified boolean not null);
  create table models (
    model text, id text, payload jsonb not null, uid text, user_code text, grant_id text, expires_at timestamptz,
    consumed_at timestamptz, primary key (model, id)
  );
  create index on models (grant_id);
  create index on models (model, uid);
  create index on models (model, user_code)`);

const COLUMNS = 'payload, consumed_at';

class PostgresAdapter {
  constructor(model) {
    this.model = model;
  }

  async upsert(id, payload, expiresIn) {
    await pool.query({
      name: 'upsert',
      text: `
        insert into models (model, id, payload, uid, user_code, grant_id, expires_at)
        values ($1, $2, $3, $4, $5, $6, now() + make_interval(secs => $7))
        on conflict (model, id) do update
        set payload = excluded.payload, uid = excluded.uid, user_code = excluded.user_code, grant_id = excluded.grant_id,
            expires_at = excluded.expires_at`,
      values: [this.model, id, payload, payload.uid, payload.userCode, payload.grantId, expiresIn ?? null],
    });
  }

  find(id) {
    return this.#one('find', `select ${COLUMNS} from models where model = $1 and id = $2 and (expires_at is null or expires_at > now())`, id);
  }

  findByUid(uid) {
    return this.#one('find by uid', `select ${COLUMNS} from models where model = $1 and uid = $2 and expires_at > now()`, uid);
  }

  findByUserCode(code) {
    return this.#one('find by code', `select ${COLUMNS} from models where model = $1 and user_code = $2 and expires_at > now()`, code);
  }

  async #one(name, text, value) {
    const { rows: [row] } = await pool.query({ name, text, values: [this.model, value] });
    if (row === undefined) return undefined;
    return row.consumed_at === null ? row.payload : { ...row.payload, consumed: row.consumed_at.getTime() / 1000 };
  }

  async consume(id) {
    await pool.query({ name: 'consume', text: 'update models set consumed_at = now() where model = $1 and id = $2', values: [this.model, id] });
  }

  async destroy(id) {
    await pool.query({ name: 'destroy', text: 'delete from models where model = $1 and id = $2', values: [this.model, id] });
  }

  async revokeByGrantId(grant) {
    await pool.query({ name: 'revoke', text: 'delete from models where grant_id = $1', values: [grant] });
  }
}

async function findAccount(_context, id) {
  const { rows: [account] } = await pool.query({
    name: 'account',
    text: 'select email, email_verified from accounts where id = $1',
    values: [id],
  });
  return account && { accountId: id, claims: () => ({ sub: id, ...account }) };
}

// This makes oidc-provider work as Postern does. Tenants make clients, and each request looks its client up. Access tokens follow RFC 9068,
// with the signature of ID tokens. By default, the client is in the configuration, and tokens are opaque.
const ALIKE = process.env.ALIKE !== '';
const signed = {
  enabled: true,
  defaultResource: () => 'urn:bench:api',
  getResourceServerInfo: () => ({ scope: 'openid email', audience: 'urn:bench:api', accessTokenFormat: 'jwt', jwt: { sign: { alg: 'ES256' } } }),
  useGrantedResource: () => true,
};

const key = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ format: 'jwk' });
const secret = randomBytes(32).toString('hex');
const bench = {
  client_id: 'bench', client_secret: secret, redirect_uris: [`${BASE}/callback`], id_token_signed_response_alg: 'ES256',
  grant_types: ['authorization_code', 'refresh_token', 'client_credentials'],
};
if (ALIKE) await new PostgresAdapter('Client').upsert(bench.client_id, bench);
const provider = new Provider(BASE, {
  adapter: PostgresAdapter,
  findAccount,
  claims: { openid: ['sub'], email: ['email', 'email_verified'] },
  clients: ALIKE ? [] : [bench],
  cookies: { keys: [randomBytes(32).toString('hex')] },
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: false },
    introspection: { enabled: true },
    ...(ALIKE && { resourceIndicators: signed }),
  },
  jwks: { keys: [{ ...key, use: 'sig', alg: 'ES256' }] },
  ttl: { AccessToken: 3600, AuthorizationCode: 3600, ClientCredentials: 3600, Grant: 86400, IdToken: 3600, Interaction: 3600, Session: 86400 },
});

const client = await provider.Client.find('bench');
const grants = [];
const tokens = await forEachPerson(async (number) => {
  const accountId = `account-${number}`;
  await pool.query('insert into accounts values ($1, $2, true)', [accountId, emailOf(number)]);
  const grant = new provider.Grant({ accountId, clientId: client.clientId });
  grant.addOIDCScope('openid email offline_access');
  if (ALIKE) grant.addResourceScope('urn:bench:api', 'openid email');
  const grantId = await grant.save();
  grants.push({ accountId, grantId });
  // offline_access is the scope of a client that gets a refresh token. Such a token is not bound to a session, which saves a look-up.
  const token = new provider.AccessToken({ accountId, client, grantId, gty: 'authorization_code', scope: 'openid email offline_access' });
  return token.save();
});
leave('tokens', tokens.map((token) => `Authorization: Bearer ${token}`));
const basic = `Authorization: Basic ${Buffer.from(`bench:${secret}`).toString('base64')}`;
leave('introspections', tokens.map((token) => `${basic}\t\ttoken=${token}`));
leave('credentials', [`${basic}\t\tgrant_type=client_credentials`]);

// A code is good for one request. Only the case that redeems codes asks for any.
const codeChallenge = createHash('sha256').update(process.env.VERIFIER ?? '').digest('base64url');
const bodies = [];
for (let first = 0; first < Number(process.env.CODES ?? 0); first += 20) {
  bodies.push(...(await Promise.all(Array.from({ length: 20 }, async (_, offset) => {
    const code = new provider.AuthorizationCode({
      ...grants[(first + offset) % grants.length], client, gty: 'authorization_code', redirectUri: `${BASE}/callback`, scope: 'openid email',
      ...(ALIKE && { resource: 'urn:bench:api' }), codeChallenge, codeChallengeMethod: 'S256', authTime: Math.floor(Date.now() / 1000), nonce: 'n',
    });
    const fields = { grant_type: 'authorization_code', redirect_uri: `${BASE}/callback`, code_verifier: process.env.VERIFIER };
    return String(new URLSearchParams({ ...fields, code: await code.save() }));
  }))));
}
leave('codes', bodies);
leave('basic', [basic]);
await pool.query('vacuum analyze');
listen(provider.callback());
