// Both servers share this: their settings, the people to make, and the message that all people are there.
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import pg from 'pg';

// PLACE is a directory. The server writes the headers for the load there, one a line, as wrk.lua reads them.
export const { DATABASE_URL, PASSWORD, PLACE } = process.env;
export const PEOPLE = Number(process.env.PEOPLE);
export const PORT = Number(process.env.PORT);
export const BASE = `http://127.0.0.1:${PORT}`;

// Both libraries' documentation: one pool for the process. 20 is the size in better-auth's example; pg's own default is 10.
export const pool = new pg.Pool({ connectionString: DATABASE_URL, max: 20 });

export const emailOf = (number) => `person-${number}@bench.test`;

export async function forEachPerson(make) {
  const made = [];
  for (let first = 0; first < PEOPLE; first += 10) {
    const batch = Array.from({ length: Math.min(10, PEOPLE - first) }, (_, offset) => make(first + offset));
    made.push(...(await Promise.all(batch)));
  }
  return made;
}

export function leave(name, headers) {
  writeFileSync(`${PLACE}/${name}`, headers.join('\n'), { mode: 0o600 });
}

export function listen(handler) {
  createServer(handler).listen(PORT, '127.0.0.1', () => leave('ready', []));
}
