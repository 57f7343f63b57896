import type { Problem } from '../data/api';

/** A problem in the server's words. */
export function Notice({ problem }: { problem: Problem | undefined }) {
  if (!problem) return null;
  const { status, code, message, field, permission } = problem;
  return (
    <div class="notice" role="alert">
      <strong>{headline(problem)}</strong>
      <span>{message}</span>
      <small>
        {status === 0 ? null : <code>{status === 404 && code === 'unknown' ? '404' : `${status} ${code}`}</code>}
        {field ? (
          <>
            {' '}
            field <code>{field}</code>
          </>
        ) : null}
        {permission ? (
          <>
            {' '}
            needs permission <code>{permission}</code>
          </>
        ) : null}
      </small>
    </div>
  );
}

function headline({ status, code, title }: Problem): string {
  if (status === 0) return title || 'No answer';
  if (status === 401) return 'The server wants a key';
  if (status === 403) return 'Not permitted';
  return title || code;
}
