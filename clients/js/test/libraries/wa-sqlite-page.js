// WA-SQLite in a page: the locks of a file alone, and a database in IndexedDB that these locks guard.

import SQLiteModule from '@journeyapps/wa-sqlite/dist/wa-sqlite-async.mjs';
import wasmBinary from '@journeyapps/wa-sqlite/dist/wa-sqlite-async.wasm';
import { IDBBatchAtomicVFS } from '@journeyapps/wa-sqlite/src/examples/IDBBatchAtomicVFS.js';
import * as SQLite from '@journeyapps/wa-sqlite/src/sqlite-api.js';
import { WebLocksMixin } from '@journeyapps/wa-sqlite/src/WebLocksMixin.js';

const STATES = {
  none: SQLite.SQLITE_LOCK_NONE,
  shared: SQLite.SQLITE_LOCK_SHARED,
  reserved: SQLite.SQLITE_LOCK_RESERVED,
  exclusive: SQLite.SQLITE_LOCK_EXCLUSIVE,
};

const ANSWERS = { [SQLite.SQLITE_OK]: 'ok', [SQLite.SQLITE_BUSY]: 'busy' };

class Locks extends WebLocksMixin(Object) {
  getFilename(file) {
    return file;
  }
}

const connections = new Map();

/** The locks of one file; the states are SQLite's, and each change is answered as SQLite is. */
export function connect(file, lockPolicy) {
  const locks = new Locks(undefined, undefined, { lockPolicy });
  connections.set(file, locks);
}

const answer = (code) => ANSWERS[code] ?? `code ${code}`;
export const lock = async (file, state) => answer(await connections.get(file).jLock(file, STATES[state]));
export const unlock = async (file, state) => answer(await connections.get(file).jUnlock(file, STATES[state]));

let sqlite;
let database;
let begin;

/** Opens the database of the origin, with its one counter; other tabs must not write meanwhile. */
export async function open(lockPolicy) {
  const module = await SQLiteModule({ wasmBinary });
  sqlite = SQLite.Factory(module);
  sqlite.vfs_register(await IDBBatchAtomicVFS.create('counters', module, { lockPolicy }), true);
  database = await sqlite.open_v2('counters');
  // The transaction says beforehand that it will write, where the policy has a use for that.
  begin = lockPolicy === 'shared+hint' ? 'PRAGMA write_hint; BEGIN' : 'BEGIN';
  await sqlite.exec(
    database,
    `CREATE TABLE IF NOT EXISTS counter (value);
     INSERT INTO counter SELECT 0 WHERE NOT EXISTS (SELECT * FROM counter)`,
  );
}

/** Reads the counter and writes the next value, that often; gives the values and how often it was refused. */
export async function increment(times) {
  const values = [];
  let refused = 0;
  while (values.length < times) {
    const value = await attempted(async () => {
      await sqlite.exec(database, begin);
      const next = (await read()) + 1;
      await sqlite.exec(database, `UPDATE counter SET value = ${next}; COMMIT`);
      return next;
    });
    if (value === undefined) refused++;
    else values.push(value);
  }
  return { values, refused };
}

export async function read() {
  let value;
  await sqlite.exec(database, 'SELECT value FROM counter', (row) => {
    [value] = row;
  });
  return value;
}

/** Nothing, if another connection was in the way; then the transaction is undone. */
async function attempted(work) {
  try {
    return await work();
  } catch (error) {
    if (error.code !== SQLite.SQLITE_BUSY) throw error;
    if (!sqlite.get_autocommit(database)) await sqlite.exec(database, 'ROLLBACK');
    // Two that refuse each other in step would do so for ever.
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 20));
    return undefined;
  }
}
