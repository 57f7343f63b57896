import type { Problem } from '../data/api';
import { plainLines } from '../logic/names';

/** A problem in the server's words. */
export function Notice({ problem }: { problem: Problem | undefined }) {
  if (!problem) return null;
  const { status, code, message, field, permission } = problem;
  return (
    <div class="notice" role="alert">
      <strong>{plainLines(headline(problem))}</strong>
      <span>{plainLines(message)}</span>
      <small>
        {status === 0 ? null : (
          <code>{status === 404 && code === 'unknown' ? '404' : plainLines(`${status} ${code}`)}</code>
        )}
        {field ? (
          <>
            {' '}
            field <code>{plainLines(field)}</code>
          </>
        ) : null}
        {permission ? (
          <>
            {' '}
            needs permission <code>{plainLines(permission)}</code>
          </>
        ) : null}
      </small>
    </div>
  );
}

/** Says that locks from before a restart may still come back, while they may. */
export function Recovery({ ms }: { ms: number | undefined }) {
  if (!ms) return null;
  return (
    <p class="notice recovery" role="status">
      The server has restarted, and waits up to {Math.ceil(ms / 1000)} s for holders from before: their locks may be
      missing.
    </p>
  );
}

function headline({ status, code, title }: Problem): string {
  if (status === 0) return title || 'No answer';
  if (status === 401) return 'The server wants a key';
  if (status === 403) return 'Not permitted';
  return title || code;
}
